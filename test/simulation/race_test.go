//go:build race

package simulation

// raceEnabled reports whether the race detector is enabled, which makes simulations about seven times slower.
const raceEnabled = true
