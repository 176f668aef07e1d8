package peering

import (
	"errors"
	"time"
)

const (
	// How often is looked whether the machine has slept: timers have stood still as well.
	checkSleep = time.Second
	// By how much the clocks may part before that is a sleep: less than signs of life are given too early.
	shortSleep = 3 * time.Second
)

// errSlept is why an operator pauses that has been away, until its next sign of life is answered.
var errSlept = errors.New("the machine has slept, or its clock was put forward: the others may have taken us for dead meanwhile")

// An instant is a moment by two clocks: that of the process stands still while the machine sleeps, that on the wall
// does not.
type instant struct{ own, wall time.Time }

func (p *Peering) instant() instant { return instant{own: time.Now(), wall: p.wall()} }

// age is how long ago it was, for the others.
func (i instant) age(now instant) time.Duration {
	return max(now.own.Sub(i.own), now.wall.Sub(i.wall))
}

// sleptUntil reports whether the machine has slept since then.
func (i instant) sleptUntil(now instant) bool {
	return now.wall.Sub(i.wall)-now.own.Sub(i.own) > shortSleep
}

// wallClock has no monotonic part, which would be preferred in differences.
func wallClock() time.Time { return time.Now().Round(0) }
