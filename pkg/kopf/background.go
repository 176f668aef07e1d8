package kopf

import (
	"context"
	"reflect"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Daemon adds a function that runs in its own goroutine for as long as the object exists, for example to watch a socket or to poll an
// external system. The operator starts it when it first sees a matching object. The function must return soon after its context is
// cancelled. context.Cause then returns the reason: [daemons.ErrDeleted], [daemons.ErrFilteredOut], [daemons.ErrPaused],
// [daemons.ErrOutOfScope] or [daemons.ErrShutdown]. The finalizer blocks the object's deletion until the function has returned.
//
// Request.Object is the state of the object when the daemon started; [Request.Latest] returns the newest one. When the function returns,
// even with an error, the operator writes its changes to Request.Object. After an error that isn't permanent, it calls the function again.
// After nil or a permanent failure, it only does so after a restart of the operator, unless the daemon has a Restart. Daemons keep no
// progress on the object, so each process starts them anew.
//
// Equivalent in kopf: @kopf.daemon.
func (r *Resource[T]) Daemon(id string, daemon daemons.Daemon, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("Daemon", id, fn)
	h.handlerKind, h.task.Daemon = daemonHandler, daemon
	return r.addHandler(h, opts)
}

// Timer adds a function that the operator calls repeatedly for as long as the object exists. The first call comes immediately or after the
// [InitialDelay], and with Sharp, Idle or a Schedule possibly later. The finalizer blocks the object's deletion during a call. A Sharp
// timer without an Anchor is called at multiples of its interval after the object's creation, so long calls and restarts of the operator
// don't shift the times.
//
// Request.Object is the newest state of the object. After each call, even a failed one, the operator writes what the function has changed
// in it. It retries failed calls according to the timer's policy; the interval then starts after the next success. A permanent failure
// stops the timer for the object until another client changes the object's essence. The operator's own changes don't restart the Idle time,
// but a restart of the operator does. Timers need no goroutine between calls.
//
// Equivalent in kopf: @kopf.timer.
func (r *Resource[T]) Timer(id string, timer daemons.Timer, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("Timer", id, fn)
	h.handlerKind, h.task.Timer = timerHandler, &timer
	if v := reflect.ValueOf(timer.Schedule); v.IsValid() && v.Kind() == reflect.Pointer && v.IsNil() {
		h.addErrorf("Schedule is a nil pointer: set a schedule or leave it out")
		timer.Schedule = nil
	}
	if timer.Schedule != nil {
		timer.Schedule = guardedSchedule{timer.Schedule}
	}
	if !timer.Last.IsZero() {
		h.addErrorf("Last is set: remove it, because the operator sets it")
	}
	return r.addHandler(h, opts)
}

type guardedSchedule struct {
	schedule interface{ Next(time.Time) time.Time }
}

func (s guardedSchedule) Next(from time.Time) time.Time {
	return guard.Value("Schedule", func() time.Time { return s.schedule.Next(from) })
}

// checkTask returns the errors of a daemon or a timer. Its policy and initial delay are checked by the options.
func (d *declaration) checkTask() []error {
	err := daemons.Task{Run: func(context.Context, progress.Attempt) error { return nil }, Daemon: d.task.Daemon, Timer: d.task.Timer}.Check()
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return nil
}

// InitialDelay delays the start of a daemon, or the first call of a timer. It applies to each start: for a new object, after a restart of
// the operator, and after a pause, but not to the Restart of a [daemons.Daemon]. Default: 0.
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
