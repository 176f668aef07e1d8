package loopguard

import (
	"slices"
	"time"
)

const (
	// DefaultLimit is the number of own cycles in [Window] that start without a delay.
	DefaultLimit = 10
	// Window is the period in which a [Guard] counts own cycles. A loop is over if no own cycle starts for this period.
	Window = time.Minute

	firstDelay = time.Second
	maxDelay   = time.Minute
)

// A Guard counts the own cycles of one object. These are the cycles that handlers have caused themselves. The zero value has counted none. The methods
// return a new Guard and do not change the receiver.
type Guard struct {
	starts []time.Time   // the start times of the counted own cycles since the last change by another client; after a delayed cycle, only this one
	delay  time.Duration // the delay of the last own cycle; zero without a loop
	held   time.Time     // the time at which the waiting cycle may start; zero if none waits
}

// Start decides how long a cycle must wait. If the cycle must wait, the caller must call Start again for it when the time has passed, or earlier. own is true
// if handlers have caused the cycle themselves. Other cycles never wait.
// limit is the number of own cycles in [Window] that start without a delay.
//
// A change by another client begins a new count, because one change may cause a chain of own cycles. This change does not end a loop.
func (g Guard) Start(now time.Time, own bool, limit int) (next Guard, wait time.Duration) {
	switch {
	case !own:
		if g.held = (time.Time{}); !g.Looping() {
			return Guard{}, 0
		}
		return g, 0
	case g.held.After(now):
		return g, g.held.Sub(now)
	case !g.held.IsZero():
		g.held, g.starts = time.Time{}, []time.Time{now}
		return g, 0
	case g.Looping():
		g.delay = min(2*g.delay, maxDelay)
	default:
		g.starts = slices.DeleteFunc(slices.Clone(g.starts), func(at time.Time) bool { return now.Sub(at) >= Window })
		if g.starts = append(g.starts, now); len(g.starts) <= limit {
			return g, 0
		}
		g.delay = firstDelay
	}
	g.held = now.Add(g.delay)
	return g, g.delay
}

// Skip drops a waiting cycle whose time has come. The caller calls it instead of [Guard.Start] if the cycle does not start, for example because no handler
// still matches the object.
func (g Guard) Skip(now time.Time) Guard {
	if !g.held.After(now) {
		g.held = time.Time{}
	}
	return g
}

// Expire resets the count if the last own cycle started at least [Window] ago, and thereby ends a loop. During a loop, it returns the time until it must be
// called again, and otherwise 0.
func (g Guard) Expire(now time.Time) (next Guard, left time.Duration) {
	if !g.held.IsZero() {
		return g, max(g.held.Sub(now), time.Millisecond)
	}
	if len(g.starts) == 0 {
		return Guard{}, 0
	}
	left = g.starts[len(g.starts)-1].Add(Window).Sub(now)
	switch {
	case left <= 0:
		return Guard{}, 0
	case !g.Looping():
		return g, 0
	}
	return g, left
}

// Looping reports whether there is a loop.
func (g Guard) Looping() bool { return g.delay > 0 }

// Count returns the number of counted own cycles. After a delayed cycle, it is 1.
func (g Guard) Count() int { return len(g.starts) }

// Empty reports whether the guard has counted nothing.
func (g Guard) Empty() bool { return len(g.starts) == 0 && !g.Looping() }

// Held returns the time at which the waiting cycle may start; zero if none waits.
func (g Guard) Held() time.Time { return g.held }
