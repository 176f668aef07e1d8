//go:build race

package simulation

// The race detector makes a simulation some seven times slower.
const raced = true
