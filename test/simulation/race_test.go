//go:build race

package simulation

// The race detector makes a simulation about seven times slower.
const raced = true
