package kopf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A Request is the input of a handler. It is valid for one attempt, so don't use it after the handler has returned.
type Request[T client.Object] struct {
	// Object is a copy of the object's current state, including the changes of earlier handlers in the same reconcile. The operator writes
	// changes to it as a patch at the end of the reconcile, even if the handler fails.
	//
	// A handler can replace the pointer with another copy of the same object. It fails permanently if it changes the name, namespace, uid,
	// apiVersion or kind.
	//
	// If the object is edited during a cycle, Object is newer than the new side of Diff. The edit is then handled as a separate update.
	Object T
	// Old is the last-handled configuration: the object's essence at the end of the previous cycle. It is nil for a created object, and if
	// the configuration is unknown (see [Request.OldKnown]). It is also nil for handlers without a cause: OnReconcile, OnEvent,
	// OnEventAbout, daemons, timers and indexes.
	//
	// The configuration is stored in an annotation, so everyone who can edit the object's annotations can forge Old, and no schema or
	// admission handler has checked it. So don't use it to decide what a user may do, or to find what to delete or overwrite outside of the
	// object.
	//
	// Equivalent in kopf: old.
	Old T
	// Diff is the difference between Old and the essence that is being handled. For handlers with a [Field] and their sub-handlers, its
	// paths are relative to the field. It is empty for handlers without a cause.
	//
	// Equivalent in kopf: diff.
	Diff diff.Diff
	// Handler is the full id of the handler.
	Handler string
	// Reason is the kind of cause or, without a cause, the kind of handler. A resume handler that is called for a different cause gets that
	// cause's reason.
	//
	// Equivalent in kopf: reason.
	Reason Reason
	// Event is the type of the watch event for [Resource.OnEvent]: Added, Modified or Deleted. It is empty for objects of the initial list,
	// and for all other handlers.
	//
	// Equivalent in kopf: type.
	Event watch.EventType
	// Attempt contains the number of this attempt, the time when the operator selected the handler for the cause, and the last error. For
	// cause handlers, all three are stored on the object and survive restarts.
	//
	// Equivalent in kopf: retry, started.
	Attempt progress.Attempt
	// Client is the manager's client, which reads from the manager's cache. Objects of kinds for which the operator has its own
	// cache (see [WithKindCaches]) are read from that cache instead. For cause handlers and reconcile handlers, Client also records writes to
	// the handler's own object, so that the operator can detect handlers that trigger themselves (see [WithLoopGuard]).
	Client client.Client

	call        *invoke.Request
	current     T // the new side of Diff
	result      any
	resultErr   error
	subHandlers []invoke.SubHandler
	awaitsSubs  bool
	requeue     invoke.Requeue
	errs        []error

	conditions   *conditions.Set
	conditionsOf client.Object // the object whose conditions are cached; differs from Object after the handler has replaced the pointer
}

// SetResult sets the handler's result. If the handler succeeds, the operator stores the result in the object's status under the handler's
// id (see [WithResults]). A nil value stores nothing, and a value that can't be encoded as JSON makes the handler fail permanently. The API
// server drops the result if the kind's schema neither has the field nor preserves unknown fields. The results of index functions are
// ignored, and so are those of OnEvent handlers without [WriteChanges].
//
// Equivalent in kopf: the value that a handler returns.
func (r *Request[T]) SetResult(value any) {
	var err error
	if r.result, err = match.ToJSONValue(value); err != nil {
		r.resultErr = Permanent(fmt.Errorf("the result has no JSON form: %w", err))
		return
	}
	r.resultErr = nil
}

// Result returns the last value passed to [Request.SetResult] in its JSON form. It is meant for handler tests.
func (r *Request[T]) Result() any { return r.result }

// Latest returns a copy of the object's newest known state without asking the API server. The state comes from the cache, or from the
// response to a newer write by this operator. Daemons use Latest to follow changes while they run. Once the object is deleted, Latest
// returns the last known state.
func (r *Request[T]) Latest() T {
	if r.call != nil && r.call.Latest != nil {
		if latest, ok := r.call.Latest().(T); ok {
			return latest
		}
	}
	return r.Object
}

// Field returns the old and the new value of the handler's field (see [Field]) in their JSON form, or nil for an absent value. A
// sub-handler without its own field gets its parent's values. For daemons, timers, OnReconcile, OnEventAbout, OnEvent and indexes, both are
// the value at the time of the call.
//
// Equivalent in kopf: old, new of a handler with field=.
func (r *Request[T]) Field() (old, new any) {
	if r.call == nil {
		return nil, nil
	}
	return r.call.Field[0], r.call.Field[1]
}

// OldKnown reports whether the last-handled configuration is known. It isn't if only a digest is stored, because the object is a Secret
// (see [WithDigestOnly]) or too large. The object has then changed, but Old and Diff are empty.
func (r *Request[T]) OldKnown() bool { return r.call == nil || r.call.OldKnown }

// Eventf posts a Kubernetes Event about the object. The type is "Normal" or "Warning". The reason and the action are single words, such as
// "Resized" and "Resize". The note is a format string for the text that users will see. Eventf doesn't wait for the API server. An invalid
// Event is logged instead of posted.
//
// Each object has a quota of 50 Events, plus one more every five minutes. Of the 50, 10 are reserved for Warnings and automatic Events, and
// 10 for automatic Events only (see [WithEvents]). Events beyond the quota are dropped: see [events.Options].
//
// Equal Events about one version of the object become one Event with a count. If only their notes differ, the operator keeps them apart
// with a number after the second one's action, as in "Resize (2)".
//
// Equivalent in kopf: kopf.event, kopf.info, kopf.warn.
func (r *Request[T]) Eventf(eventType, reason, action, note string, args ...any) {
	if r.call != nil && r.call.Notify != nil {
		r.call.Notify(nil, eventType, reason, action, note, args...)
	}
}

// EventAbout is like [Request.Eventf], but posts the Event about another object, such as a child, and names Object as the related object.
// The other object must have a uid, so read or create it first. It has its own quota.
//
// Equivalent in kopf: kopf.event with another object.
func (r *Request[T]) EventAbout(obj client.Object, eventType, reason, action, note string, args ...any) {
	if r.call != nil && r.call.Notify != nil {
		r.call.Notify(obj, eventType, reason, action, note, args...)
	}
}

// RequeueAfter makes the operator call a [Resource.OnReconcile] handler again after a delay, or earlier if something changes. This doesn't
// count as a failure: nothing is logged or reported as one, and handlers with [After] are still called. The delay replaces the handler's
// [Interval] once. If the handler calls RequeueAfter several times, the shortest delay applies. A delay that isn't positive has no effect.
// If the handler also returns an error, the backoff applies instead, as in controller-runtime.
//
// In all other handlers, RequeueAfter makes the attempt fail permanently. In a cause handler, return [Temporary] instead; a timer has its
// interval.
func (r *Request[T]) RequeueAfter(delay time.Duration) {
	if r.call != nil && r.Reason != ReasonReconcile {
		r.errs = append(r.errs, Permanent(fmt.Errorf("RequeueAfter is only for OnReconcile handlers, but this handler was called for %q: "+
			"return Temporary in a cause handler, and use the interval of a timer", r.Reason)))
		return
	}
	if delay > 0 && (r.requeue.After == 0 || delay < r.requeue.After) {
		r.requeue.After = delay
	}
}

// AwaitSubs reports whether all sub-handlers that the handler has declared so far in this call have succeeded or failed permanently, in
// this reconcile or an earlier one. Sub-handlers whose filters don't match count as finished. If AwaitSubs returns false, the handler
// should return nil, so that the operator can call the sub-handlers. It calls the handler again when they have finished. The handler must
// then declare the same sub-handlers again, and this time gets past AwaitSubs. It can call AwaitSubs several times, once for each group of
// sub-handlers. These repeated calls of the handler don't count as attempts, but [Timeout] still limits them.
//
// In a test that calls the handler with its own Request, AwaitSubs always returns true. With kopftest.Invoke, it returns true if
// WithFinishedSubHandlers names all declared sub-handlers.
//
// Equivalent in kopf: kopf.execute.
func (r *Request[T]) AwaitSubs() bool {
	if r.call == nil {
		return true // a test has created the request
	}
	for _, sub := range r.subHandlers {
		if r.call.SubFinished == nil || !r.call.SubFinished(sub) {
			r.awaitsSubs = true
			return false
		}
	}
	return true
}

// A Handler is a function that the operator calls for an object. If a cause handler returns nil, it has succeeded, and the operator won't
// call it again for this cause, not even after a restart. After an error, the operator retries the handler by default. Return a [Temporary]
// error to set the delay, or a [Permanent] error if retrying is pointless. A panic counts as an error, and [runtime.Goexit] as a panic.
//
// controller-runtime's log.FromContext(ctx) returns a logger with the object's kind, namespace, name and uid, the handler, the reason and
// the attempt.
type Handler[T client.Object] func(ctx context.Context, req *Request[T]) error

// A Middleware wraps a handler. See [Resource.Use].
type Middleware[T client.Object] func(next Handler[T]) Handler[T]

// forEngine adapts the handler to the engine. hasGoroutine is true for daemons and timers, because package daemons handles runtime.Goexit
// for them.
func (h Handler[T]) forEngine(c client.Client, hasGoroutine bool) func(ctx context.Context, call *invoke.Request) error {
	return func(ctx context.Context, call *invoke.Request) error {
		req, err := newRequest[T](call)
		if err != nil {
			return err
		}
		req.Client = c
		if call.WrapClient != nil {
			req.Client = call.WrapClient(c)
		}
		ended := testhook.HandlerStarting(ctx, call)
		if ended == nil && hasGoroutine {
			return req.finish(h(ctx, req))
		}
		err = guard.Call("", func() error { return req.finish(h(ctx, req)) })
		if fault, ok := err.(*guard.Error); ok { //nolint:errorlint // a handler may wrap the fault of another function
			err = &progress.PanicError{Value: fault.Value, Stack: fault.Stack}
		}
		if ended != nil {
			ended(err)
		}
		return err
	}
}

func newRequest[T client.Object](call *invoke.Request) (*Request[T], error) {
	object, ok := call.Object.(T)
	if !ok {
		return nil, fmt.Errorf("the object has the Go type %T, which the handler does not expect: report this as a bug in kopf-runtime", call.Object)
	}
	req := &Request[T]{
		Object: object, Diff: call.Diff, Handler: call.ID, Reason: Reason(call.Reason), Event: watch.EventType(call.Event), Attempt: call.Attempt,
		call: call, current: object,
	}
	if old, ok := call.Old.(T); ok {
		req.Old = old
	}
	if handled, ok := call.Handled.(T); ok {
		req.current = handled
	}
	return req, nil
}

// applyConditions sets the conditions of each [conditions.Error] in the handler's error. Invalid conditions become errors of the request.
func (r *Request[T]) applyConditions(err error) {
	if len(conditions.FindErrors(err)) > 0 {
		r.Conditions().SetFromError(err)
	}
	if r.conditions != nil {
		if err := r.conditions.Err(); err != nil {
			r.errs = append(r.errs, Permanent(err))
		}
	}
}

// finish passes the handler's results to the engine, and returns the attempt's error. It joins the handler's error err with errors of the
// request, such as an invalid condition. Those are permanent and come first, so the attempt fails permanently even if err is temporary.
func (r *Request[T]) finish(err error) error {
	r.applyConditions(err)
	r.call.Object = r.Object                     // the handler may have replaced the pointer
	r.call.Requeue.Priority = r.requeue.Priority // as in controller-runtime, even after an error
	if err == nil {
		r.call.Result, r.call.SubHandlers, r.call.Requeue = r.result, r.subHandlers, r.requeue
		r.call.AwaitsSubs = r.awaitsSubs
		err = r.resultErr
	}
	if len(r.errs) == 0 {
		return err
	}
	return errors.Join(append(slices.Clone(r.errs), err)...)
}

// Conditions returns Object's conditions in status.conditions, or in the field that [WithConditionsIn] sets. At the end of the reconcile,
// the operator writes the changed conditions together with the handlers' other changes. It doesn't overwrite concurrent changes to other
// conditions. The handler fails permanently if it sets an invalid condition, or if the kind has no field for conditions.
//
// A handler can also return a [conditions.Error] to set its condition.
func (r *Request[T]) Conditions() *conditions.Set {
	if r.conditions != nil && client.Object(r.Object) == r.conditionsOf {
		return r.conditions
	}
	var opts []conditions.Option
	if r.call != nil {
		opts = r.call.ConditionOptions
	}
	set, err := conditions.For(r.Object, opts...)
	if err != nil {
		r.errs = append(r.errs, Permanent(fmt.Errorf("the object cannot have conditions: %w (%s)", err, kinds.ConditionsHint)))
		set, _ = conditions.For(&unstructured.Unstructured{Object: map[string]any{}})
	}
	r.conditions, r.conditionsOf = set, r.Object
	return set
}
