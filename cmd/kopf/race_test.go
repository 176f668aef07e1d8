//go:build race

package main

// manyObjects is smaller with the race detector, with which the operator needs minutes for 10 000 objects.
const manyObjects = 1_000
