package kopf

import (
	"slices"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Retries sets the maximum number of attempts, including the first attempt. After the last failed attempt, the handler fails permanently. For
// timers and OnReconcile handlers, the count restarts after each success or permanent failure. If a change calls an OnReconcile handler before the delay
// of a failed attempt has passed, the new attempt does not count. With 0, the handler fails without a call, as in
// kopf. Default: no limit; for OnEvent and OnEventAbout handlers, 1.
//
// For OnEvent handlers, n applies to each event, and the later events of the object wait for the retries. After a restart, the operator does not retry the
// handler, but calls it for the current state of the object. For OnEventAbout handlers, see [Resource.OnEventAbout].
//
// Equivalent in kopf: retries=.
func Retries(n int) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Retries", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		if n < 0 {
			d.addErrorf("Retries must not be negative, got %d: leave it out for no limit", n)
		}
		d.Policy.Retries = &n
	}
}

// Timeout sets the maximum duration of all attempts together. The duration begins when the operator selects the handler for the cause, or with
// the first call of a handler without a cause. If the next attempt would start after the timeout, the handler fails permanently. The operator makes at
// least one attempt, even if that attempt starts late. Timeout does not interrupt a running attempt: see [AttemptTimeout]. For timers and OnReconcile
// handlers, the duration restarts after each success or permanent failure. The timeout must be positive. Default: no limit.
//
// The timeout of a handler with sub-handlers includes them: after it, none of them is called, and the unfinished ones fail with the handler.
//
// Equivalent in kopf: timeout=.
func Timeout(timeout time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Timeout", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		d.checkDuration("Timeout", timeout)
		if timeout == 0 {
			d.addErrorf("Timeout must be positive, got 0s: leave it out for no limit")
		}
		d.Policy.Timeout = &timeout
	}
}

// AttemptTimeout sets the timeout of the context of each attempt. The operator waits for the handler even after the timeout. 0 means no limit.
// Default: 0.
func AttemptTimeout(timeout time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("AttemptTimeout", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		d.checkDuration("AttemptTimeout", timeout)
		d.Policy.AttemptTimeout = timeout
	}
}

// Backoff sets the delay before the next attempt after an error that is neither temporary nor permanent. With 0, the next attempt starts
// immediately. If the API server has requested a longer delay in Retry-After, the operator uses that delay. For daemons, the backoff is also the
// maximum delay of a [Restart]. Changes call OnReconcile handlers before the backoff has passed. Default: the delay of [WithBackoff], which is one minute by
// default; for OnReconcile handlers, the rate limiter of [WithControllerOptions], or the default of controller-runtime: 5 milliseconds, doubled with each failure
// since the last success up to 1000 seconds.
//
// Equivalent in kopf: backoff=.
func Backoff(delay time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Backoff", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		d.checkDuration("Backoff", delay)
		d.Policy.Backoff = &delay
	}
}

// BackoffFunc sets a function that computes the [Backoff] from the failed attempt and its error. See [progress.Exponential]. A negative
// result means zero. For OnReconcile handlers, the number of the attempt counts all failures since the last success. BackoffFunc cannot be combined with Backoff.
func BackoffFunc(fn func(a progress.Attempt, err error) time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("BackoffFunc", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		if fn == nil {
			d.addErrorf("BackoffFunc is nil: pass a function or use Backoff")
			return
		}
		d.Policy.BackoffFunc = func(a progress.Attempt, err error) time.Duration {
			return guard.Value("BackoffFunc", func() time.Duration { return fn(a, err) })
		}
	}
}

// ErrorMode sets the effect of an error that is neither temporary nor permanent: the handler is retried, fails or succeeds. Default:
// [progress.ErrorsTemporary]; for indexes, [progress.ErrorsIgnored].
//
// Equivalent in kopf: errors=.
func ErrorMode(mode progress.ErrorMode) HandlerOption {
	return func(d *declaration) {
		d.requireKind("ErrorMode", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		if mode < progress.ErrorsTemporary || mode > progress.ErrorsIgnored {
			d.addErrorf("ErrorMode has the invalid value %d: use ErrorsTemporary, ErrorsPermanent or ErrorsIgnored", mode)
		}
		d.Policy.Errors = mode
	}
}

// WriteChanges makes the operator write the changes that an OnEvent handler makes to Request.Object, and the result of the handler. The operator
// writes them in the next reconcile of the object, with the changes of the other handlers. It writes only the fields that the handler has changed,
// also if the object has changed since the event. The operator drops the changes for a deleted object. A handler that changes something for
// each event causes an endless loop, because each write causes an event. Without WriteChanges, the operator drops the changes and the results of
// OnEvent handlers.
//
// Equivalent in kopf: every @kopf.on.event handler writes.
func WriteChanges() HandlerOption {
	return func(d *declaration) {
		d.requireKind("WriteChanges", eventHandler)
		if d.handlerKind == eventAboutHandler {
			d.addErrorf("WriteChanges has no effect on OnEventAbout handlers, because their changes are always written: remove it")
		}
		d.WritesChanges = true
	}
}

// Optional makes a delete handler best-effort: the handler needs no finalizer and does not block the deletion of the object. The operator calls
// the handler once, when it observes the deletion. If the operator does not run at that time, it does not call the handler. If the object has the
// finalizer for another reason, the operator calls the handler like other delete handlers. The option is only for delete handlers.
//
// Equivalent in kopf: optional=True.
func Optional() HandlerOption {
	return func(d *declaration) {
		if !d.hasReason(ReasonDelete) {
			d.addErrorf("Optional is only for delete handlers: remove it")
		}
		d.Criteria.Optional = true
	}
}

// EvenIfDeleted makes the operator call an OnReconcile handler or a resume handler even for objects that are being deleted. By default, it does not call these
// handlers for them, except for the handlers of [FromReconciler]. For resume handlers, only objects count whose deletion was requested before the operator started.
// The option is only for OnReconcile handlers and resume handlers.
//
// Equivalent in kopf: deleted=True.
func EvenIfDeleted() HandlerOption {
	return func(d *declaration) {
		if d.handlerKind != reconcileHandler && !d.hasReason(ReasonResume) {
			d.addErrorf("EvenIfDeleted is only for OnReconcile handlers and resume handlers: remove it")
		}
		d.Criteria.EvenIfDeleted, d.SkipsDeletion = true, false
	}
}

// After makes a handler wait for other handlers of the resource. The arguments are the ids of the other handlers: of cause handlers for a cause handler, and of
// OnReconcile handlers for an OnReconcile handler.
//
// A cause handler waits until the other handlers have succeeded for the current cause. If one of them fails permanently, this handler fails without a call, and the
// operator logs the failure. The handler does not wait for handlers that do not match the cause.
//
// An OnReconcile handler is called only while the last call of each other handler has succeeded, and while the other handlers have handled all changes. The handlers
// are therefore ordered steps: a change calls all of them in their order, up to the first one that fails. The handlers after it wait, even if their own time has
// come, and are called as soon as it has succeeded. After its permanent failure, they wait for a change. A handler does not wait for handlers whose filters do not
// match the object.
func After(ids ...string) HandlerOption {
	return func(d *declaration) {
		d.requireKind("After", causeHandler, reconcileHandler)
		if len(ids) == 0 || slices.Contains(ids, "") {
			d.addErrorf("After has no handler ids, or an empty one: pass ids or remove the option")
			return
		}
		d.After = append(d.After, ids...)
	}
}

// RetryOnRelatedChange calls a cause handler that waits for its next attempt when a related object changes, instead of after the delay. Related objects are those of
// [Resource.Owns], [Resource.Watches], [Resource.WatchesMetadata], [Resource.TriggerFrom] and [Operator.Enqueue], and those that the handler has passed to
// [Request.Track]. The option is for work that is done once, when something is ready: the handler returns a [Temporary] error until its children are ready.
//
// An attempt because of a change does not count for [Retries]: it takes the place of the attempt before it. The option also applies to the sub-handlers of the
// handler. Without the option, the delay of a cause handler is a minimum, which related objects do not shorten.
func RetryOnRelatedChange() HandlerOption {
	return func(d *declaration) {
		d.requireKind("RetryOnRelatedChange", causeHandler)
		d.RetriesOnRelatedChange = true
	}
}

// RenamedFrom makes a cause handler and its sub-handlers continue with the progress that is stored under earlier ids of the handler. Use it if the id
// of a handler has changed. Without the option, a handler with a changed id starts again for the objects of unfinished cycles. The earlier id of a
// handler with a [Field] ends with the path of the field. Existing results in the status keep the earlier id.
//
// Remove the option when no cycle that began under the earlier id is unfinished.
func RenamedFrom(ids ...string) HandlerOption {
	return func(d *declaration) {
		d.requireKind("RenamedFrom", causeHandler)
		if len(ids) == 0 || slices.Contains(ids, "") {
			d.addErrorf("RenamedFrom has no ids, or an empty one: pass the earlier ids or remove the option")
			return
		}
		d.EarlierIDs = append(d.EarlierIDs, ids...)
	}
}

// StoreIn sets the store for the progress of a cause handler and its sub-handlers. For example, use [progress.InMemory] if the operator may repeat the
// handler after a restart. To move a handler to another store, pass [progress.Multi] with the new store and the earlier store until all unfinished cycles
// have ended. Otherwise, the handler starts again for the objects of these cycles. Default: the store of [WithProgress].
func StoreIn(store progress.Store) HandlerOption {
	return func(d *declaration) {
		d.requireKind("StoreIn", causeHandler)
		if store == nil {
			d.addErrorf("StoreIn(nil): pass a store or remove the option")
			return
		}
		if checker, ok := store.(progress.Checker); ok {
			if err := checker.Check(); err != nil {
				d.addErrorf("StoreIn: %w", err)
			}
		}
		d.Store = store
	}
}

// Interval sets the time from a success or a permanent failure of an OnReconcile handler to the next call. A change can trigger the handler
// earlier, and [Request.RequeueAfter] replaces the interval once. Default: only changes trigger the handler. For timers, see [Resource.Timer].
//
// Equivalent in kopf: interval=.
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

// CancelOnDelete cancels the context of a running cause handler or OnReconcile handler when the deletion of its object is requested. The handler
// should then return, so that the deletion does not wait for it. context.Cause returns [daemons.ErrDeleted]. A cancelled attempt does not count
// for [Retries] if it ends with an error that is neither temporary nor permanent. If the object leaves the cache although it exists, for example because it
// loses the labels of [WithWatchSelector], the handler continues. The option also holds for the sub-handlers of the handler. It is not for delete handlers.
func CancelOnDelete() HandlerOption {
	return func(d *declaration) {
		d.requireKind("CancelOnDelete", causeHandler, reconcileHandler)
		if d.handlerKind == causeHandler && !d.AnyReason && slices.Equal(d.Reasons, []string{string(ReasonDelete)}) {
			d.addErrorf("CancelOnDelete has no effect on delete handlers: remove it")
		}
		d.Handler.CancelOnDelete = true
	}
}
