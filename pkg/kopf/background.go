package kopf

import (
	"errors"
	"reflect"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// Daemon adds a function that runs for as long as the object is there, on a goroutine of its own: it watches a
// socket, say, or polls at a pace of its own. It is started when the operator first sees an object that
// passes the filters, and has to return soon when its context ends; context.Cause tells why: [daemons.ErrDeleted],
// [daemons.ErrFilteredOut], [daemons.ErrPaused], [daemons.ErrShutdown]. The object is held by the finalizer until it has returned.
//
// Request.Object is the object when it was called, [Request.Latest] the newest state of it. What the daemon has
// changed in Request.Object is written when it returns, also when it fails. An error means what it means
// everywhere: it is called again. If it returns nil, it has done its work, and stays down for this object until
// the operator is restarted, unless [Restart] says otherwise. It has no progress on the object: each process starts it anew.
//
// kopf: @kopf.daemon.
func (r *Resource[T]) Daemon(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("Daemon", id, fn)
	h.handlerKind = daemonHandler
	return r.addHandler(h, opts)
}

// Timer adds a function that is called again and again for as long as the object is there: so long after the end of the
// last call; with [Sharp], so long after its beginning. The first call is at once, or after the [InitialDelay].
// 0 is for timers with a [Schedule] or [Idle]. The object is held by the finalizer, and goes when
// no call is under way.
//
// Request.Object is the newest state of the object; what is changed in it is written after each call, also when
// that has failed. An error is retried like everywhere, before the interval counts again; a permanent one stops
// the timer for the object until its essence changes. Timers cost no goroutine between their calls.
//
// kopf: @kopf.timer.
func (r *Resource[T]) Timer(id string, every time.Duration, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("Timer", id, fn)
	h.handlerKind = timerHandler
	h.task.Timer = &daemons.Timer{Interval: every}
	if every < 0 {
		h.addErrorf("the interval is negative (%s): use a duration of more than zero", every)
	}
	h.checkUnit("the interval", every)
	return r.addHandler(h, opts)
}

// Restart sets whether a daemon is started again after it has ended by itself. The first restart is after one second; the pause doubles
// with each restart, up to the [Backoff] of the daemon. Default: [daemons.RestartNever].
func Restart(policy daemons.RestartPolicy) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Restart", daemonHandler)
		if policy < daemons.RestartNever || policy > daemons.RestartAlways {
			d.addErrorf("Restart(%d) is no policy: use RestartNever, RestartOnFailure or RestartAlways", policy)
		}
		d.task.Restart = policy
	}
}

// InitialDelay is waited for whenever a daemon or a timer is started: at first sight of the object, also after a
// restart of the operator, or a pause. Default: 0.
//
// kopf: initial_delay=.
func InitialDelay(delay time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("InitialDelay", daemonHandler, timerHandler)
		d.checkDuration("InitialDelay", delay)
		d.task.InitialDelay, d.initialDelayFunc = delay, nil
	}
}

// InitialDelayFunc computes the [InitialDelay] for an object, which it must not change. A negative result means
// zero.
//
// kopf: initial_delay= with a function.
func InitialDelayFunc(fn func(obj client.Object) time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("InitialDelayFunc", daemonHandler, timerHandler)
		if fn == nil {
			d.addErrorf("InitialDelayFunc is nil: give it a function, or use InitialDelay")
		}
		d.initialDelayFunc = fn
	}
}

// CancellationBackoff is how long after the end of its context a daemon is first said to ignore it, in the log.
// Default: once a minute.
//
// kopf: cancellation_backoff=.
func CancellationBackoff(pause time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("CancellationBackoff", daemonHandler)
		d.checkDuration("CancellationBackoff", pause)
		d.task.CancellationBackoff = &pause
	}
}

// CancellationTimeout is how long after the [CancellationBackoff] a daemon that has not returned is abandoned: its
// goroutine goes on, but the object is free to go. Default: it is waited for as long as it takes.
//
// kopf: cancellation_timeout=.
func CancellationTimeout(timeout time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("CancellationTimeout", daemonHandler)
		d.checkDuration("CancellationTimeout", timeout)
		d.task.CancellationTimeout = &timeout
	}
}

// Sharp has a timer called at points that are its interval apart, counted from the creation of the object,
// however long its calls take, and whenever the operator was started. Points that pass during a call, or while
// the operator is down, are left out.
//
// kopf: sharp=True.
func Sharp() HandlerOption {
	return timerOption("Sharp", func(_ *declaration, t *daemons.Timer) { t.Sharp = true })
}

// Idle has a timer wait until the essence of its object has not changed for so long. Without an interval it is
// called once for each such period; with one, again and again until the next change. Changes that the
// operator's own handlers make do not count.
//
// kopf: idle=.
func Idle(pause time.Duration) HandlerOption {
	return timerOption("Idle", func(d *declaration, t *daemons.Timer) {
		if pause <= 0 {
			d.addErrorf("Idle is %s: use a duration of more than zero", pause)
		}
		d.checkUnit("Idle", pause)
		t.Idle = pause
	})
}

// Jitter puts the calls of a timer off by a random part of its interval, at most by this fraction of it, so that
// those of many objects spread. 0 to 1; default 0.
func Jitter(fraction float64) HandlerOption {
	return timerOption("Jitter", func(d *declaration, t *daemons.Timer) {
		if !(fraction >= 0 && fraction <= 1) { // not a number is neither
			d.addErrorf("Jitter is %v: use a fraction from 0 to 1", fraction)
		}
		t.Jitter = fraction
	})
}

// MaxParallel is for how many objects at a time a timer is called; others wait, and who is due first goes first.
// Default: [daemons.DefaultMaxParallel].
func MaxParallel(n int) HandlerOption {
	return timerOption("MaxParallel", func(d *declaration, t *daemons.Timer) {
		if n < 1 {
			d.addErrorf("MaxParallel is %d: use one or more", n)
		}
		t.MaxParallel = n
	})
}

// Schedule has a timer called at the times that it tells, instead of an interval: Next returns the first one after
// the given time, or zero if there is none any more. The schedules of github.com/robfig/cron fit. It must be quick,
// and is used for all objects.
//
// If Next returns a time that is not after the given one, or panics, the timer is not called: the error is logged once for each handler,
// and Next is asked again after a minute. Two calls for an object are at least a millisecond apart.
func Schedule(s interface{ Next(time.Time) time.Time }) HandlerOption {
	return timerOption("Schedule", func(d *declaration, t *daemons.Timer) {
		if v := reflect.ValueOf(s); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			d.addErrorf("Schedule is nil: give it a schedule, or leave it out")
		}
		t.Schedule = s
	})
}

// timing is an option that only timers have.
func timerOption(option string, set func(*declaration, *daemons.Timer)) HandlerOption {
	return func(d *declaration) {
		if d.requireKind(option, timerHandler); d.handlerKind == timerHandler {
			set(d, d.task.Timer)
		}
	}
}

// checkTimer tells what does not go together.
func (d *declaration) checkTimer() (errs []error) {
	t := d.task.Timer
	if t.Interval == 0 && t.Idle == 0 && t.Schedule == nil {
		errs = append(errs, errors.New("it has no interval, no Idle and no Schedule: give it one; "+
			"for a single call use a Daemon with an InitialDelay"))
	}
	if t.Interval != 0 && t.Schedule != nil {
		errs = append(errs, errors.New("it has both an interval and a Schedule: make the interval 0, or leave the Schedule out"))
	}
	if t.Sharp && t.Interval == 0 {
		errs = append(errs, errors.New("Sharp needs an interval: give it one, or leave Sharp out"))
	}
	if t.Jitter != 0 && t.Interval == 0 && t.Schedule == nil {
		errs = append(errs, errors.New("Jitter is a fraction of an interval: give it one or a Schedule, or leave Jitter out"))
	}
	return errs
}
