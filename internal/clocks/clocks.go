package clocks

import "time"

// A Reading is what two clocks show at one moment. On some systems, the monotonic clock stops while the machine is suspended; the wall
// clock never does.
type Reading struct{ Monotonic, Wall time.Time }

// Read reads the monotonic clock and the given wall clock.
func Read(wallClock func() time.Time) Reading {
	return Reading{Monotonic: time.Now(), Wall: wallClock().Round(0)} // without its monotonic reading, which Sub would prefer
}

// Since returns the time since an earlier reading, including suspensions.
func (r Reading) Since(earlier Reading) time.Duration {
	return max(r.Monotonic.Sub(earlier.Monotonic), r.Wall.Sub(earlier.Wall))
}
