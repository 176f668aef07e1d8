package daemons

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// DefaultMaxParallel is the default of MaxParallel in a [Timer].
const DefaultMaxParallel = 16

// A Timer defines when a [Task] runs. It needs an Interval, an Idle or a Schedule.
type Timer struct {
	// Interval is the time from the end of one invocation to the start of the next. Equivalent in kopf: interval=.
	Interval time.Duration
	// Sharp makes the Interval the time between the starts of two invocations. These scheduled start times are called points. Points that pass
	// during an invocation are skipped. Equivalent in kopf: sharp=True.
	Sharp bool
	// Anchor fixes one of the points, so that the others stay the same after a restart. Zero means the time of the first invocation; for
	// timers of package kopf, the creation of the object. Only with Sharp.
	Anchor time.Time
	// Schedule computes the points, instead of an Interval. Next must return a time after its argument, or zero to end the timer. It must
	// return quickly and must not use the [Supervisor].
	//
	// If Next panics or returns a time that isn't after its argument, the timer isn't invoked. The supervisor logs the error once for each
	// kind and ID, and calls Next again after a minute. Invocations are at least one millisecond apart.
	Schedule interface{ Next(time.Time) time.Time }
	// Idle is how long the object must have been idle before an invocation, counted from the last [Supervisor.Touch] or the object's first
	// task. Without an Interval or a Schedule, the timer is invoked once after its start, and again after each Touch. With an Anchor or a
	// Schedule, points within the idle time are skipped. Otherwise the timer is invoked when the idle time ends. Equivalent in kopf: idle=.
	Idle time.Duration
	// Last is the start of the previous invocation in an earlier process, if known; package kopf sets it. The first invocation is then due
	// one Interval later, or at the first point after Last. If that time has passed, it is due immediately. If Last is zero, the first
	// invocation is due immediately, or at the next point of an Anchor or a Schedule.
	Last time.Time
	// Jitter delays invocations by a random fraction of the Interval, or of the time between two points. The value is the maximum fraction,
	// from 0 to 1. Default: 0.
	Jitter float64
	// MaxParallel limits the concurrent runs of one group. Timers above the limit are queued in the order of their due times. Default:
	// [DefaultMaxParallel].
	MaxParallel int
	// Group is the name of the group that shares the limit. Default: all timers with the same Kind and ID.
	Group string
}

// hasFixedPoints reports whether the points don't depend on when the timer starts.
func (t *Timer) hasFixedPoints() bool { return t.Schedule != nil || t.Sharp && !t.Anchor.IsZero() }

// repeats reports whether the timer runs again even if the object doesn't change.
func (t *Timer) repeats() bool { return t.Schedule != nil || t.Interval > 0 }

// firstPoint returns the point of the first invocation after the timer starts. The parameter last is the time of the previous invocation,
// or zero. Like nextPoint and pointNotBefore, firstPoint returns zero if there is no further point.
func (t *Timer) firstPoint(last, from time.Time) (time.Time, error) {
	if last.IsZero() || last.After(from) || !t.repeats() {
		return t.pointNotBefore(from)
	}
	return t.nextPoint(last, last)
}

// nextPoint returns the point of the next invocation, after the one for the given point has ended. It never returns a point twice, even if
// the wall clock is set back.
func (t *Timer) nextPoint(point, end time.Time) (time.Time, error) {
	switch {
	case t.hasFixedPoints():
		next, err := t.nextFixedPoint(later(point, end))
		if earliest := end.Add(validation.MinDuration); t.Schedule != nil && err == nil && !next.IsZero() && next.Before(earliest) {
			next = earliest // limit the rate of a schedule with very close points
		}
		return next, err
	case t.Sharp:
		return end.Add(t.Interval - end.Sub(point)%t.Interval), nil
	default:
		return end.Add(t.Interval), nil
	}
}

// pointNotBefore returns the first point at the given time or later.
func (t *Timer) pointNotBefore(from time.Time) (time.Time, error) {
	if t.hasFixedPoints() {
		return t.nextFixedPoint(from.Add(-1))
	}
	return from, nil
}

// nextFixedPoint returns the first fixed point after the given time. The result has no monotonic clock reading, because the monotonic clock
// can drift from the wall clock.
func (t *Timer) nextFixedPoint(from time.Time) (time.Time, error) {
	if t.Schedule != nil {
		return t.callSchedule(from)
	}
	elapsed := t.offsetAt(from) - t.offsetAt(t.Anchor)
	if elapsed < 0 {
		elapsed += t.Interval
	}
	return from.Round(0).Add(t.Interval - elapsed), nil
}

// offsetAt returns the time since the last multiple of the interval, counted from the zero time. We compare offsets, because the difference
// between a time and an anchor could overflow a duration.
func (t *Timer) offsetAt(at time.Time) time.Duration { return at.Round(0).Sub(at.Truncate(t.Interval)) }

// callSchedule calls the schedule, recovers from panics and validates the result.
func (t *Timer) callSchedule(from time.Time) (point time.Time, err error) {
	from = from.Round(0)
	if err := guard.Catch("Schedule", func() error { point = t.Schedule.Next(from).Round(0); return nil }); err != nil {
		return time.Time{}, err
	}
	if !point.IsZero() && !point.After(from) {
		return time.Time{}, fmt.Errorf("schedule returned %s as the next time after %s: return a later time from Next, or the zero time to end the timer",
			point.Format(time.RFC3339Nano), from.Format(time.RFC3339Nano))
	}
	return point, nil
}

// jitter returns the random delay for a point.
func (t *Timer) jitter(point time.Time) time.Duration {
	if t.Jitter == 0 {
		return 0
	}
	span := t.Interval
	if t.Schedule != nil {
		if next, err := t.nextFixedPoint(point); err == nil && !next.IsZero() {
			span = next.Sub(point)
		}
	}
	return time.Duration(rand.Float64() * t.Jitter * float64(span)) //nolint:gosec // the jitter need not be secret
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
