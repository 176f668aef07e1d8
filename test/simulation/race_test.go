//go:build race

package simulation

import "testing"

// raceEnabled reports whether the race detector is enabled, which makes simulations about seven times slower.
const raceEnabled = true

// skipSlow skips a test that is slow with the race detector, and that tests decisions rather than concurrency. make test also runs it without the race detector.
func skipSlow(t *testing.T) {
	t.Helper()
	t.Skip("too slow with the race detector")
}
