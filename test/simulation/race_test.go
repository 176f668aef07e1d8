//go:build race

package simulation

// raced reports whether the race detector runs, which makes a simulation about seven times slower.
const raced = true
