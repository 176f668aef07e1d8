package kopf

import (
	"slices"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A HandlerOption is one of kopf's keywords for a handler.
type HandlerOption func(*declaration)

// Retries is the greatest number of attempts; then the handler has failed. For timers and OnReconcile handlers they are counted from
// one success to the next. With 0 the handler fails without being called, as in kopf. Default: no limit.
//
// kopf: retries=.
func Retries(n int) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Retries", causeHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		if n < 0 {
			d.addErrorf("Retries is negative (%d): leave the option out for no limit", n)
		}
		d.Policy.Retries = &n
	}
}

// Timeout is for how long after its selection a handler is tried; then it has failed. It does not
// interrupt an attempt: see [AttemptTimeout]. Each handler is called once, however long it has waited for that. For timers and OnReconcile handlers it begins anew after each success. It must be
// positive. Default: no limit.
//
// kopf: timeout=.
func Timeout(timeout time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Timeout", causeHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		d.checkDuration("Timeout", timeout)
		if timeout == 0 {
			d.addErrorf("Timeout must be positive, got 0s, with which the handler fails before its first attempt: leave the option out for no limit")
		}
		d.Policy.Timeout = &timeout
	}
}

// AttemptTimeout is the deadline of one attempt, on its context. Default: 0, which means none.
func AttemptTimeout(timeout time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("AttemptTimeout", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		d.checkDuration("AttemptTimeout", timeout)
		d.Policy.AttemptTimeout = timeout
	}
}

// Backoff is the pause after an unknown error, before the next attempt; with 0 the next attempt is at once. Default: one minute; for OnReconcile handlers 100 milliseconds,
// doubled with each attempt up to two minutes. If the error is an answer of the API server that asks for a longer pause,
// that counts. For daemons it is also the longest pause before a [Restart].
//
// kopf: backoff=.
func Backoff(pause time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Backoff", causeHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		d.checkDuration("Backoff", pause)
		d.Policy.Backoff = &pause
	}
}

// BackoffFunc computes the pause after an unknown error from the attempt that failed, and its error;
// see [progress.Exponential]. A negative result means zero. If the error is an answer of the API server that asks for a longer pause, that counts.
func BackoffFunc(fn func(a progress.Attempt, err error) time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("BackoffFunc", causeHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		if fn == nil {
			d.addErrorf("BackoffFunc is nil: give it a function, or use Backoff")
		}
		d.Policy.BackoffFunc = fn
	}
}

// ErrorMode sets how an error is treated that is neither temporary nor permanent: the handler is retried, fails or succeeds.
// Default: [progress.ErrorsTemporary], for indexes [progress.ErrorsIgnored].
//
// kopf: errors=.
func ErrorMode(mode progress.ErrorMode) HandlerOption {
	return func(d *declaration) {
		d.requireKind("ErrorMode", causeHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		if mode < progress.ErrorsTemporary || mode > progress.ErrorsIgnored {
			d.addErrorf("ErrorMode(%d) is no mode: use ErrorsTemporary, ErrorsPermanent or ErrorsIgnored", mode)
		}
		d.Policy.Errors = mode
	}
}

// Optional lets the object go without waiting for this delete handler: it needs no finalizer. It is
// called, once, as well as it goes, when a deletion is seen. For delete handlers only.
//
// kopf: optional=True.
func Optional() HandlerOption {
	return func(d *declaration) {
		if !d.hasReason(ReasonDelete) {
			d.addErrorf("Optional is for delete handlers: this one is never called for a deletion")
		}
		d.Criteria.Optional = true
	}
}

// EvenIfDeleted calls a resume handler also for objects that are being deleted when the operator
// starts. For resume handlers only.
//
// kopf: deleted=True.
func EvenIfDeleted() HandlerOption {
	return func(d *declaration) {
		if !d.hasReason(ReasonResume) {
			d.addErrorf("EvenIfDeleted is for resume handlers: this one never resumes")
		}
		d.Criteria.EvenIfDeleted = true
	}
}

// After has a handler wait until others of its kind, named by their ids, have succeeded for the present
// cause. If one of them has failed for good, the handler has failed, too, without being called; the log
// says so. Those that are not called for the cause are not waited for.
func After(ids ...string) HandlerOption {
	return func(d *declaration) {
		d.requireKind("After", causeHandler)
		if len(ids) == 0 || slices.Contains(ids, "") {
			d.addErrorf("After needs the ids of handlers: name them, or leave it out")
			return
		}
		d.After = append(d.After, ids...)
	}
}

// Interval is how long after a success, or a failure for good, a level-triggered handler is called again,
// if nothing else has called it until then. Default: only when something has changed.
//
// For a timer it stands in the declaration: see [Resource.Timer].
//
// kopf: interval=.
func Interval(pause time.Duration) HandlerOption {
	return func(d *declaration) {
		if d.handlerKind == timerHandler {
			d.addErrorf("Interval is for OnReconcile handlers: give Timer its interval as its second argument")
			return
		}
		d.requireKind("Interval", reconcileHandler)
		if pause <= 0 {
			d.addErrorf("Interval is %s: use a duration of more than zero", pause)
		}
		d.checkUnit("Interval", pause)
		d.Handler.Interval = pause
	}
}

// CancelOnDelete ends the context of a handler that is working when its object is being deleted, with
// [daemons.ErrDeleted] as its cause: the deletion need not wait for it. What it returns then is no attempt that counts. For
// handlers that are called for anything but the deletion.
func CancelOnDelete() HandlerOption {
	return func(d *declaration) {
		d.requireKind("CancelOnDelete", causeHandler, reconcileHandler)
		if d.handlerKind == causeHandler && !d.AnyReason && slices.Equal(d.Reasons, []string{string(ReasonDelete)}) {
			d.addErrorf("CancelOnDelete means nothing to a delete handler: leave it out")
		}
		d.Handler.CancelOnDelete = true
	}
}
