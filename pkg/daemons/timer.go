package daemons

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// DefaultMaxParallel is how many timers of one handler run at the same time, if nothing else is said.
const DefaultMaxParallel = 16

// A Timer says when a [Task] is run. It needs an Interval, an Idle or a Schedule.
type Timer struct {
	// Interval is how long after the end of one invocation the next one begins. kopf: interval=.
	Interval time.Duration
	// Sharp has invocations begin at points that are the Interval apart, whatever they take; points that
	// pass meanwhile are left out. kopf: sharp=True.
	Sharp bool
	// Anchor is one of these points, so that they are the same after a restart: the time of the object's
	// creation, say. Zero: the first invocation is. Only with Sharp.
	Anchor time.Time
	// Schedule has invocations begin at the times it tells, instead of an Interval: one after the given time,
	// or zero when there is none any more. It must be quick, and not use the [Supervisor].
	//
	// If Next returns a time that is not after the given one, or panics, there is no invocation: the error is logged once for each kind and ID,
	// and the schedule is asked again after a minute. Two invocations are at least a millisecond apart.
	Schedule interface{ Next(time.Time) time.Time }
	// Idle is how long an object must have been known and not touched before an invocation; without an Interval or
	// Schedule there is one for each such period. With an Anchor or a Schedule, points that come too early are left
	// out; otherwise they are put off. kopf: idle=.
	Idle time.Duration
	// Last is when the previous invocation began, if that is known from before a restart. The first one is then
	// due as if there had been none; at once, if that has passed. Zero: the first one is at once, with an Anchor or a
	// Schedule at the next point.
	Last time.Time
	// Jitter puts invocations off by a random part of up to this fraction of the Interval, or of the time between two
	// points. 0 to 1; default 0.
	Jitter float64
	// MaxParallel is how many timers of one group run at the same time; the others wait, and who is due first goes
	// first. Default: [DefaultMaxParallel].
	MaxParallel int
	// Group is who shares the limit. Default: all timers with the same Kind and ID.
	Group string
}

// aligned reports whether points are fixed, whenever the timer was started.
func (t *Timer) aligned() bool { return t.Schedule != nil || t.Sharp && !t.Anchor.IsZero() }

// repeats reports whether there are invocations without changes of the object.
func (t *Timer) repeats() bool { return t.Schedule != nil || t.Interval > 0 }

// first is the point of the first invocation for a timer that is started at the given time, and was invoked before
// if the other one is not zero. Here and below a zero point means that there is none.
func (t *Timer) first(last, from time.Time) (time.Time, error) {
	if last.IsZero() || last.After(from) || !t.repeats() {
		return t.notBefore(from)
	}
	return t.next(last, last)
}

// next is the point after an invocation for one point, which has ended at the given time. The wall clock may show
// a time before the point even then, but no point is used twice.
func (t *Timer) next(point, end time.Time) (time.Time, error) {
	switch {
	case t.aligned():
		next, err := t.after(later(point, end))
		if soonest := end.Add(validation.Shortest); t.Schedule != nil && err == nil && !next.IsZero() && next.Before(soonest) {
			next = soonest // a schedule whose points are as good as one does not keep the processor busy
		}
		return next, err
	case t.Sharp:
		return end.Add(t.Interval - end.Sub(point)%t.Interval), nil
	default:
		return end.Add(t.Interval), nil
	}
}

// notBefore is the first point at the given time or after it.
func (t *Timer) notBefore(from time.Time) (time.Time, error) {
	if t.aligned() {
		return t.after(from.Add(-1))
	}
	return from, nil
}

// after is the first of the fixed points after the given time. It is one of the wall clock: without the reading of
// the monotonic clock, which can drift away from that.
func (t *Timer) after(from time.Time) (time.Time, error) {
	if t.Schedule != nil {
		return t.ask(from)
	}
	beyond := t.phase(from) - t.phase(t.Anchor)
	if beyond < 0 {
		beyond += t.Interval
	}
	return from.Round(0).Add(t.Interval - beyond), nil
}

// phase is how long before a time the last multiple of the interval was, since the beginning of all times:
// anchors that are longer ago than a duration can tell are fine.
func (t *Timer) phase(at time.Time) time.Duration { return at.Round(0).Sub(at.Truncate(t.Interval)) }

// ask does not trust the schedule, which is not ours.
func (t *Timer) ask(from time.Time) (point time.Time, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &progress.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	from = from.Round(0)
	point = t.Schedule.Next(from).Round(0)
	if !point.IsZero() && !point.After(from) {
		return time.Time{}, fmt.Errorf("the schedule returned %s as the next time after %s: return a later time from its Next, or the zero time for none",
			point.Format(time.RFC3339Nano), from.Format(time.RFC3339Nano))
	}
	return point, nil
}

// jitter is by how much the invocation of a point is put off.
func (t *Timer) jitter(point time.Time) time.Duration {
	if t.Jitter == 0 {
		return 0
	}
	span := t.Interval
	if t.Schedule != nil {
		if next, err := t.after(point); err == nil && !next.IsZero() {
			span = next.Sub(point)
		}
	}
	return time.Duration(rand.Float64() * t.Jitter * float64(span)) //nolint:gosec // chance, not secrecy
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
