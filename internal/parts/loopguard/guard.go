package loopguard

import (
	"slices"
	"time"
)

const (
	// DefaultLimit is the number of own cycles in [Window] that start without a delay.
	DefaultLimit = 10
	// Window is the period in which a [Guard] counts own cycles. A loop is over when no own cycle has started for this long.
	Window = time.Minute

	firstDelay = time.Second
	maxDelay   = time.Minute
)

// A Guard counts the own cycles of one object, which are the cycles that its handlers have caused themselves. The zero value is ready to
// use. The methods return a new Guard and do not change the receiver.
type Guard struct {
	starts []time.Time   // starts of the counted own cycles since another client's last change; after a delayed cycle, only that one
	delay  time.Duration // how long the last own cycle was delayed; zero without a loop
	held   time.Time     // when the waiting cycle may start; zero if none is waiting
}

// Start decides how long a cycle must wait. If it must, the caller calls Start for it again when that time has passed, or earlier. own is
// true if handlers have caused the cycle themselves; other cycles never wait. limit is the number of own cycles in [Window] that start
// without a delay.
//
// A change by another client restarts the count, because one change may legitimately cause a chain of own cycles. It doesn't end a loop.
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

// Skip drops a waiting cycle whose time has come. Call it instead of [Guard.Start] if the cycle does not start, for example because no
// handler matches the object any more.
func (g Guard) Skip(now time.Time) Guard {
	if !g.held.After(now) {
		g.held = time.Time{}
	}
	return g
}

// Expire resets the count, and so ends a loop, if the last own cycle started at least [Window] ago. During a loop, it returns the time
// until it must be called again, otherwise 0.
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

// Count returns the number of counted own cycles. It is 1 after a delayed cycle.
func (g Guard) Count() int { return len(g.starts) }

// Empty reports whether the guard has counted nothing.
func (g Guard) Empty() bool { return len(g.starts) == 0 && !g.Looping() }

// Held returns when the waiting cycle may start; zero if none is waiting.
func (g Guard) Held() time.Time { return g.held }
