//go:build !race

package main

// manyObjects is the number of objects on the page.
const manyObjects = 10_000
