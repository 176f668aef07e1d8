package clocks

import "time"

// A Reading contains the times of two clocks at one moment. On some systems, only the monotonic clock stops while the machine is suspended.
type Reading struct{ Monotonic, Wall time.Time }

// Read reads the monotonic clock and a wall clock.
func Read(wallClock func() time.Time) Reading {
	return Reading{Monotonic: time.Now(), Wall: wallClock().Round(0)} // otherwise, Sub would use the monotonic reading
}

// Since returns the time since an earlier reading, including suspensions.
func (r Reading) Since(earlier Reading) time.Duration {
	return max(r.Monotonic.Sub(earlier.Monotonic), r.Wall.Sub(earlier.Wall))
}
