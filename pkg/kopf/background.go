package kopf

import (
	"errors"
	"reflect"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// Daemon adds a function that runs in its own goroutine for as long as the object exists, for example to watch a socket or to poll another
// system. The operator starts it when it first sees a matching object. The function must return soon after its context is cancelled.
// context.Cause then returns the reason: [daemons.ErrDeleted], [daemons.ErrFilteredOut], [daemons.ErrPaused], [daemons.ErrOutOfScope] or
// [daemons.ErrShutdown]. The finalizer blocks the deletion of the object until the function has returned.
//
// Request.Object is the state of the object when the daemon started; [Request.Latest] returns the newest one. When the function returns,
// even with an error, the operator writes what it has changed in Request.Object. If the error isn't permanent, the operator calls the
// function again. After nil or a permanent failure, it does so only after a restart of the operator, unless you set [Restart]. Daemons keep
// no progress on the object, so each process starts them.
//
// Equivalent in kopf: @kopf.daemon.
func (r *Resource[T]) Daemon(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("Daemon", id, fn)
	h.handlerKind = daemonHandler
	return r.addHandler(h, opts)
}

// Timer adds a function that the operator calls repeatedly for as long as the object exists. The interval is the time from the end of one
// call to the start of the next; see [Sharp] for calls at fixed times. Pass 0 for a timer with a [Schedule], or with [Idle] alone. The
// operator makes the first call immediately, or after the [InitialDelay]. With Sharp, Idle or a Schedule, it can come later. The finalizer
// blocks the deletion of the object during a call.
//
// Request.Object is the newest state of the object. After each call, the operator writes what the function has changed in it, even if the
// call has failed. It retries failed calls according to the timer's policy; the interval then starts after the next success. A permanent
// failure stops the timer for the object until another client changes the object's essence. Timers need no goroutine between calls.
//
// Equivalent in kopf: @kopf.timer.
func (r *Resource[T]) Timer(id string, interval time.Duration, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("Timer", id, fn)
	h.handlerKind = timerHandler
	h.task.Timer = &daemons.Timer{Interval: interval}
	if interval < 0 {
		h.addErrorf("the interval must not be negative, got %s", interval)
	}
	h.checkUnit("the interval", interval)
	return r.addHandler(h, opts)
}

// Restart sets whether the operator starts a daemon again after it has returned nil or failed permanently. The first restart comes after
// one second. The delay then doubles with each restart, up to the daemon's [Backoff]. After a run that is longer than the Backoff, it is
// one second again. Default: [daemons.RestartNever].
func Restart(policy daemons.RestartPolicy) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Restart", daemonHandler)
		if policy < daemons.RestartNever || policy > daemons.RestartAlways {
			d.addErrorf("Restart has the invalid value %d: use RestartNever, RestartOnFailure or RestartAlways", policy)
		}
		d.task.Restart = policy
	}
}

// InitialDelay delays the start of a daemon, or the first call of a timer. It applies to each start: for a new object, after a restart of
// the operator, and after a pause, but not to a [Restart]. Default: 0.
//
// Equivalent in kopf: initial_delay=.
func InitialDelay(delay time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("InitialDelay", daemonHandler, timerHandler)
		d.checkDuration("InitialDelay", delay)
		d.task.InitialDelay, d.initialDelayFunc = delay, nil
	}
}

// InitialDelayFunc computes the [InitialDelay] for each object. A negative result counts as zero. If the function panics, the operator logs
// an error and tries to start the daemon or timer again when the object changes.
//
// Equivalent in kopf: initial_delay= with a function.
func InitialDelayFunc(fn func(obj client.Object) time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("InitialDelayFunc", daemonHandler, timerHandler)
		if fn == nil {
			d.addErrorf("InitialDelayFunc is nil: pass a function or use InitialDelay")
			return
		}
		d.initialDelayFunc = func(obj client.Object) time.Duration {
			return guard.Value("InitialDelayFunc", func() time.Duration { return fn(obj) })
		}
	}
}

// CancellationBackoff sets how long the operator waits after it has cancelled a daemon's context before it logs that the daemon is still
// running. It repeats the message every minute. Default: one minute.
//
// Equivalent in kopf: cancellation_backoff=.
func CancellationBackoff(delay time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("CancellationBackoff", daemonHandler)
		d.checkDuration("CancellationBackoff", delay)
		d.task.CancellationBackoff = &delay
	}
}

// CancellationTimeout sets how long the operator waits before it abandons a daemon that hasn't returned. The time starts after the
// [CancellationBackoff] if that is set, and otherwise when the context is cancelled. The goroutine of an abandoned daemon keeps running,
// but no longer blocks the deletion of the object. Default: no limit while the operator runs, and 15 seconds when it stops.
//
// Equivalent in kopf: cancellation_timeout=.
func CancellationTimeout(timeout time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("CancellationTimeout", daemonHandler)
		d.checkDuration("CancellationTimeout", timeout)
		d.task.CancellationTimeout = &timeout
	}
}

// Sharp makes the operator call a timer at multiples of its interval after the creation of the object, so long calls and restarts of the
// operator don't shift the times. The operator skips a call if the previous one is still running at that time, or if the operator itself
// isn't running.
//
// Equivalent in kopf: sharp=True.
func Sharp() HandlerOption {
	return timerOption("Sharp", func(_ *declaration, t *daemons.Timer) { t.Sharp = true })
}

// Idle delays a timer until the essence of its object hasn't changed for the given duration. The operator then calls the timer once until
// the next change, or repeatedly if the timer has an interval. Changes that this operator's handlers, daemons and timers make to
// Request.Object don't restart the idle time, but a restart of the operator does.
//
// Equivalent in kopf: idle=.
func Idle(duration time.Duration) HandlerOption {
	return timerOption("Idle", func(d *declaration, t *daemons.Timer) {
		if duration <= 0 {
			d.addErrorf("Idle must be positive, got %s", duration)
		}
		d.checkUnit("Idle", duration)
		t.Idle = duration
	})
}

// Jitter delays each call of a timer by a random part of its interval, or of the time between two times of its [Schedule], so that the
// calls for many objects are spread over time. The fraction is the maximum, from 0 to 1. Default: 0.
func Jitter(fraction float64) HandlerOption {
	return timerOption("Jitter", func(d *declaration, t *daemons.Timer) {
		if !(fraction >= 0 && fraction <= 1) { // comparisons with NaN are false
			d.addErrorf("Jitter must be a fraction from 0 to 1, got %v", fraction)
		}
		t.Jitter = fraction
	})
}

// MaxParallel limits for how many objects the operator calls a timer at the same time. The others wait in the order of their due times.
// Default: [daemons.DefaultMaxParallel].
func MaxParallel(n int) HandlerOption {
	return timerOption("MaxParallel", func(d *declaration, t *daemons.Timer) {
		if n < 1 {
			d.addErrorf("MaxParallel must be positive, got %d: leave it out for the default %d", n, daemons.DefaultMaxParallel)
		}
		t.MaxParallel = n
	})
}

// Schedule sets the times at which the operator calls a timer, instead of an interval. Next must quickly return the first scheduled time
// after its argument, or the zero time to end the timer. The schedules of github.com/robfig/cron implement this interface. The operator
// uses the same schedule for all objects.
//
// If Next panics or returns a time that isn't after its argument, the operator doesn't call the timer. It logs the error once for each
// handler, and calls Next again after one minute. Two calls of the timer for an object are at least one millisecond apart.
func Schedule(s interface{ Next(time.Time) time.Time }) HandlerOption {
	return timerOption("Schedule", func(d *declaration, t *daemons.Timer) {
		if v := reflect.ValueOf(s); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			d.addErrorf("Schedule is nil: pass a schedule or remove the option")
			return
		}
		t.Schedule = guardedSchedule{s}
	})
}

type guardedSchedule struct {
	schedule interface{ Next(time.Time) time.Time }
}

func (s guardedSchedule) Next(from time.Time) time.Time {
	return guard.Value("Schedule", func() time.Time { return s.schedule.Next(from) })
}

// timerOption returns an option for timers. For all other handlers, it adds an error.
func timerOption(option string, set func(*declaration, *daemons.Timer)) HandlerOption {
	return func(d *declaration) {
		if d.requireKind(option, timerHandler); d.handlerKind == timerHandler {
			set(d, d.task.Timer)
		}
	}
}

// checkTimer returns an error for each invalid combination of timer options.
func (d *declaration) checkTimer() (errs []error) {
	t := d.task.Timer
	if t.Interval == 0 && t.Idle == 0 && t.Schedule == nil {
		errs = append(errs, errors.New("the timer needs an interval, an Idle or a Schedule: set one; "+
			"for a single invocation use a Daemon with an InitialDelay"))
	}
	if t.Interval != 0 && t.Schedule != nil {
		errs = append(errs, errors.New("the interval and Schedule are mutually exclusive: set the interval to 0 or remove Schedule"))
	}
	if t.Sharp && t.Interval == 0 {
		errs = append(errs, errors.New("Sharp needs an interval: set one or remove Sharp"))
	}
	if t.Jitter != 0 && t.Interval == 0 && t.Schedule == nil {
		errs = append(errs, errors.New("Jitter needs an interval or a Schedule: set one or remove Jitter"))
	}
	return errs
}
