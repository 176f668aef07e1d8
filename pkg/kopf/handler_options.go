package kopf

import (
	"slices"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Retries sets the maximum number of attempts, including the first one. After the last failed attempt, the handler fails permanently. For
// timers and OnReconcile handlers, the count restarts after each success or permanent failure. If a change triggers an OnReconcile handler
// before the delay of a failed attempt has passed, the new attempt doesn't count. With 0, the handler fails without being called, as in
// kopf. Default: no limit; for OnEvent and OnEventAbout handlers, 1.
//
// For OnEvent handlers, n applies to each event, and the object's later events wait for the retries. A restart drops the retries, and the
// handler is called for the object's current state instead. For OnEventAbout handlers, see [Resource.OnEventAbout].
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

// Timeout limits the duration of all attempts together. The time starts when the operator selects the handler for the cause, or with the
// first call of a handler without a cause. If the next attempt would start after the timeout, the handler fails permanently. There is
// always at least one attempt, even if it starts late. Timeout doesn't interrupt a running attempt: see [AttemptTimeout]. For timers and
// OnReconcile handlers, the time starts again after each success or permanent failure. The timeout must be positive. Default: no limit.
//
// A handler's timeout includes its sub-handlers: once it has passed, no more of them are called, and the unfinished ones fail with the
// handler.
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

// AttemptTimeout sets a timeout for each attempt, after which its context is cancelled. The operator still waits for the handler to return.
// 0 means no limit. Default: 0.
func AttemptTimeout(timeout time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("AttemptTimeout", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		d.checkDuration("AttemptTimeout", timeout)
		d.Policy.AttemptTimeout = timeout
	}
}

// Backoff sets the delay before the next attempt after an error that is neither temporary nor permanent. With 0, the next attempt starts
// immediately. A longer delay that the API server has requested with Retry-After takes precedence. For daemons, the backoff is also the
// maximum delay of a Restart. OnReconcile handlers don't wait for the backoff if something changes. Default: the delay of [WithBackoff],
// which is one minute by default; for OnReconcile handlers, the rate limiter of [WithControllerOptions], or the default of
// controller-runtime: 5 milliseconds, doubled with each failure since the last success up to 1000 seconds.
//
// Equivalent in kopf: backoff=.
func Backoff(delay time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Backoff", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, subHandler, indexHandler, activityHandler)
		d.checkDuration("Backoff", delay)
		d.Policy.Backoff = &delay
	}
}

// BackoffFunc computes the [Backoff] from the failed attempt and its error, as [progress.Exponential] does. A negative result counts as
// zero. For OnReconcile handlers, the attempt's number counts all failures since the last success. BackoffFunc can't be combined with
// Backoff.
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

// ErrorMode sets what happens after an error that is neither temporary nor permanent: the handler is retried, fails or succeeds. Default:
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

// WriteChanges makes the operator write the changes that an OnEvent handler makes to Request.Object, and the handler's result. Without it,
// both are dropped. They are written in the object's next reconcile, together with the changes of the other handlers. The operator only
// writes fields that the handler has changed, even if the object has changed since the event. For a deleted object, it drops the changes.
// Don't change something for each event, because each write causes an event, and the loop never stops.
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

// Optional makes a delete handler best-effort: it needs no finalizer and doesn't block the object's deletion. The operator calls it once,
// when it sees the deletion, so the handler isn't called if the operator isn't running at that time. If the object has the finalizer for a
// different reason, the handler is called like other delete handlers. The option is only for delete handlers.
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

// EvenIfDeleted makes the operator call an OnReconcile handler or a resume handler even for objects that are being deleted. By default,
// only OnReconcile handlers of [FromReconciler] are. A resume handler is only called for objects whose deletion was requested before the
// operator started. The option is only for OnReconcile handlers and resume handlers.
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

// After makes a handler wait for the resource's handlers with these ids. A cause handler can wait for cause handlers, and an OnReconcile
// handler for OnReconcile handlers.
//
// A cause handler waits until the others have succeeded for the current cause. If one of them fails permanently, this handler fails without
// being called, and the operator logs the failure. It doesn't wait for handlers that don't match the cause.
//
// An OnReconcile handler is only called while the others have handled all changes and succeeded in their last call. So the handlers become
// ordered steps: a change triggers all of them in their order, up to the first one that fails. The handlers after it wait, even if they are
// due, and are called as soon as it has succeeded. If it fails permanently, they wait for a change. A handler doesn't wait for handlers
// whose filters don't match the object.
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

// RetryOnRelatedChange retries a cause handler when a related object changes, without waiting for the delay. Related objects are those of
// [Resource.Owns], [Resource.Watches], [Resource.WatchesMetadata], [Resource.TriggerFrom] and [Operator.Enqueue], and those that the
// handler has passed to [Request.Track]. Use it for work that is done once, when something is ready, with a handler that returns a
// [Temporary] error until then.
//
// An attempt that a change triggers doesn't count for [Retries], because it takes the place of the one before it. The option also applies
// to the handler's sub-handlers. Without it, a cause handler always waits for its full delay.
func RetryOnRelatedChange() HandlerOption {
	return func(d *declaration) {
		d.requireKind("RetryOnRelatedChange", causeHandler)
		d.RetriesOnRelatedChange = true
	}
}

// RenamedFrom makes a cause handler and its sub-handlers continue with the progress that is stored under the handler's earlier ids. Use it
// when you change a handler's id, because the handler would otherwise start again for objects with an unfinished cycle. If the handler has
// a [Field], its earlier id ends with the field's path. Existing results in the status keep the earlier id.
//
// Remove the option when all cycles that started under the earlier id have finished.
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

// Revision says which revision of its logic a cause handler has. An object that was handled with a smaller one is handled again, even
// though nothing about it has changed: the handler is called with [ReasonRevision], Old is the last-handled configuration, and the Diff is
// empty. So increase the number when existing objects need what a new version of the handler does. Start with 1. Without the option, only
// new and changed objects get to know new logic.
//
// An object's numbers are stored in an annotation, in the write that stores the outcomes. Any call for a creation or an update counts, too,
// and so does a call that has failed permanently. A user's change never waits for a revision: it is handled first, and handlers that it has
// called aren't called again. After a rollback to a smaller number, nothing is called. If an operator that doesn't know the annotation has
// handled an object in the meantime, such as Python kopf, the object counts as not handled.
//
// Without [WithRollout], the revision reaches all objects as fast as the operator can handle them. Default: no revision. Equivalent in
// kopf: none.
func Revision(n int) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Revision", causeHandler)
		if n < 1 {
			d.addErrorf("Revision(%d): use a number from 1, or remove the option", n)
		}
		d.Handler.Revision = n
	}
}

// StoreIn sets the store for the progress of a cause handler and its sub-handlers. For example, use [progress.InMemory] if it doesn't
// matter that a restart repeats the handler. To move a handler to a different store, pass [progress.Multi] with the new and the earlier
// store until all unfinished cycles have ended, so that the handler doesn't start again for their objects. Default: the store of
// [WithProgress].
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

// Interval sets how long after a success or a permanent failure the operator calls an OnReconcile handler again. A change can trigger the
// handler earlier, and [Request.RequeueAfter] replaces the interval once. Default: only changes trigger the handler. For timers, set the
// interval in [daemons.Timer] instead.
//
// Equivalent in kopf: interval=.
func Interval(interval time.Duration) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Interval", reconcileHandler)
		if interval <= 0 {
			d.addErrorf("Interval must be positive, got %s", interval)
		}
		d.checkUnit("Interval", interval)
		d.Handler.Interval = interval
	}
}

// CancelOnDelete cancels the context of a running cause handler or OnReconcile handler when its object is marked for deletion. The handler
// should then return soon, because the deletion waits for it. context.Cause returns [daemons.ErrDeleted]. If the cancelled attempt returns
// an error that is neither temporary nor permanent, it doesn't count for [Retries]. The handler keeps running if the object only leaves the
// cache, for example because it loses the labels of [WithWatchSelector]. The option also applies to the handler's sub-handlers. It is not
// for delete handlers.
func CancelOnDelete() HandlerOption {
	return func(d *declaration) {
		d.requireKind("CancelOnDelete", causeHandler, reconcileHandler)
		if d.handlerKind == causeHandler && !d.AnyReason && slices.Equal(d.Reasons, []string{string(ReasonDelete)}) {
			d.addErrorf("CancelOnDelete has no effect on delete handlers: remove it")
		}
		d.Handler.CancelOnDelete = true
	}
}
