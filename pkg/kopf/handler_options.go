package kopf

import (
	"slices"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A HandlerOption configures one handler. Most options correspond to a keyword of kopf's decorators.
type HandlerOption func(*declaration)

// Retries sets the maximum number of attempts. After the last one, the handler has failed. For timers and OnReconcile handlers, the count
// starts again after each success. With 0 the handler fails without a call, as in kopf. Default: no limit.
//
// kopf: retries=.
func Retries(n int) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Retries", causeHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		if n < 0 {
			d.addErrorf("Retries must not be negative, got %d: leave it out for no limit", n)
		}
		d.Policy.Retries = &n
	}
}

// Timeout sets the maximum duration of all attempts, from the selection of the handler. After it, the handler has failed. The operator makes
// at least one attempt, even if it starts late, and does not interrupt it; use [AttemptTimeout] for that. For timers and OnReconcile
// handlers, the duration starts again after each success. The timeout must be positive. Default: no limit.
//
// kopf: timeout=.
func Timeout(timeout time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Timeout", causeHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		d.checkDuration("Timeout", timeout)
		if timeout == 0 {
			d.addErrorf("Timeout must be positive, got 0s: leave it out for no limit")
		}
		d.Policy.Timeout = &timeout
	}
}

// AttemptTimeout sets the timeout of the context of each attempt. 0 means no limit. Default: 0.
func AttemptTimeout(timeout time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("AttemptTimeout", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		d.checkDuration("AttemptTimeout", timeout)
		d.Policy.AttemptTimeout = timeout
	}
}

// Backoff sets the delay before the next attempt after an error that is neither temporary nor permanent. With 0 the next attempt starts
// immediately. If the error is a response of the API server with a longer Retry-After, that delay is used. For daemons, it is also the maximum
// delay of a [Restart]. Default: one minute; for OnReconcile handlers, 100 milliseconds, doubled with each attempt up to two minutes.
//
// kopf: backoff=.
func Backoff(delay time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Backoff", causeHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		d.checkDuration("Backoff", delay)
		d.Policy.Backoff = &delay
	}
}

// BackoffFunc sets a function that computes the [Backoff] from the failed attempt and its error. See [progress.Exponential]. A negative result
// means zero.
func BackoffFunc(fn func(a progress.Attempt, err error) time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("BackoffFunc", causeHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		if fn == nil {
			d.addErrorf("BackoffFunc is nil: pass a function or use Backoff")
		}
		d.Policy.BackoffFunc = fn
	}
}

// ErrorMode sets the effect of an error that is neither temporary nor permanent: the handler is retried, fails or succeeds. Default:
// [progress.ErrorsTemporary]; for indexes, [progress.ErrorsIgnored].
//
// kopf: errors=.
func ErrorMode(mode progress.ErrorMode) HandlerOption {
	return func(d *declaration) {
		d.requireKind("ErrorMode", causeHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		if mode < progress.ErrorsTemporary || mode > progress.ErrorsIgnored {
			d.addErrorf("ErrorMode has the invalid value %d: use ErrorsTemporary, ErrorsPermanent or ErrorsIgnored", mode)
		}
		d.Policy.Errors = mode
	}
}

// Optional makes a delete handler best-effort: it needs no finalizer and does not block the deletion of the object. The operator calls it once,
// when it observes the deletion. If the operator does not run at that time, the handler is not called. The option is only for delete handlers.
//
// kopf: optional=True.
func Optional() HandlerOption {
	return func(d *declaration) {
		if !d.hasReason(ReasonDelete) {
			d.addErrorf("Optional is only for delete handlers: remove it")
		}
		d.Criteria.Optional = true
	}
}

// EvenIfDeleted makes the operator call a resume handler also for objects that are being deleted when the operator starts. The option is only
// for resume handlers.
//
// kopf: deleted=True.
func EvenIfDeleted() HandlerOption {
	return func(d *declaration) {
		if !d.hasReason(ReasonResume) {
			d.addErrorf("EvenIfDeleted is only for resume handlers: remove it")
		}
		d.Criteria.EvenIfDeleted = true
	}
}

// After makes a cause handler wait until the handlers with the given ids, of the same resource, have succeeded for the current cause. If one of
// them fails permanently, this handler fails without a call and the operator logs it. The handler does not wait for handlers that do not
// match the cause.
func After(ids ...string) HandlerOption {
	return func(d *declaration) {
		d.requireKind("After", causeHandler)
		if len(ids) == 0 || slices.Contains(ids, "") {
			d.addErrorf("After has no handler ids, or an empty one: pass ids or remove the option")
			return
		}
		d.After = append(d.After, ids...)
	}
}

// Interval sets the time after which the operator calls an OnReconcile handler again after a success or a permanent failure, if no change has
// triggered it before. Default: the handler is only called for changes. For timers, see [Resource.Timer].
//
// kopf: interval=.
func Interval(interval time.Duration) HandlerOption {
	return func(d *declaration) {
		if d.handlerKind == timerHandler {
			d.addErrorf("Interval is only for OnReconcile handlers: pass the interval to Timer as the second argument")
			return
		}
		d.requireKind("Interval", reconcileHandler)
		if interval <= 0 {
			d.addErrorf("Interval must be positive, got %s", interval)
		}
		d.checkUnit("Interval", interval)
		d.Handler.Interval = interval
	}
}

// CancelOnDelete cancels the context of a running handler when its object is being deleted, so that the deletion does not wait for the
// handler. context.Cause returns [daemons.ErrDeleted]. The cancelled attempt does not count. The option is not for delete handlers.
func CancelOnDelete() HandlerOption {
	return func(d *declaration) {
		d.requireKind("CancelOnDelete", causeHandler, reconcileHandler)
		if d.handlerKind == causeHandler && !d.AnyReason && slices.Equal(d.Reasons, []string{string(ReasonDelete)}) {
			d.addErrorf("CancelOnDelete has no effect on delete handlers: remove it")
		}
		d.Handler.CancelOnDelete = true
	}
}
