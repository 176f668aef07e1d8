package peering

import (
	"errors"
	"time"
)

const (
	// suspensionCheckInterval is the interval of checks whether the machine was suspended. Timers do not run during a suspension.
	suspensionCheckInterval = time.Second
	// suspensionThreshold is the tolerated difference between the monotonic clock and the wall clock. It must be shorter than the
	// time between the renewal of a record and its expiry.
	suspensionThreshold = 3 * time.Second
)

// errSuspended pauses the operator after a suspension until its record is renewed.
var errSuspended = errors.New("the machine was suspended or its clock was set forward: peers may consider this operator dead")

// clockReading contains the times of two clocks at one moment. Only the monotonic clock stops while the machine is suspended.
type clockReading struct{ monotonic, wall time.Time }

func (p *Peering) readClocks() clockReading {
	return clockReading{monotonic: time.Now(), wall: p.wallClock()}
}

// age returns the elapsed time, including the time of a suspension.
func (i clockReading) age(now clockReading) time.Duration {
	return max(now.monotonic.Sub(i.monotonic), now.wall.Sub(i.wall))
}

// wasSuspendedUntil reports whether the machine was suspended between the reading and now.
func (i clockReading) wasSuspendedUntil(now clockReading) bool {
	return now.wall.Sub(i.wall)-now.monotonic.Sub(i.monotonic) > suspensionThreshold
}

// currentWallTime returns a time without a monotonic reading, because Sub would use that reading instead of the wall clock.
func currentWallTime() time.Time { return time.Now().Round(0) }
