package kopf

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A Request is what a handler is told.
type Request[T client.Object] struct {
	// Object is a private copy, with what the handlers before this one have changed in the pass. What is
	// changed in it is patched at the end of the pass, also when the handler fails.
	//
	// It can be replaced by another copy of the same object. A handler that makes another object of it (by a change of the name, namespace,
	// uid, apiVersion or kind) fails permanently.
	//
	// It is the object as it is. If it was edited while its cause is being handled, it is newer than
	// what Diff leads to: the edit is the next cause, with a Diff of its own.
	Object T
	// Old is the object as it was last handled: its essential stanzas (the spec and the like),
	// labels and annotations. The zero value (nil) on creation, and if it is not known: see
	// [Request.OldKnown]; and for those who are not called for causes: OnReconcile, daemons, timers, OnEvent and indexes. kopf: old.
	Old T
	// Diff leads from Old to what is being handled; for handlers with a [Field], below the field. It is empty where Old is not for
	// the handler. kopf: diff.
	Diff diff.Diff
	// Handler is the handler's full id.
	Handler string
	// Reason is what has happened. A resume handler that joins another cause sees that cause. kopf: reason.
	Reason Reason
	// Event is the type of the watch event, for [Resource.OnEvent]: Added, Modified or Deleted. It is empty for an object that was listed.
	// kopf: type.
	Event watch.EventType
	// Attempt counts the calls for this cause. For cause handlers it survives restarts. kopf: retry, started.
	Attempt progress.Attempt
	// Client is the manager's: it reads from the cache. For cause handlers it also records the writes of the handler's own object, to log
	// handlers that call themselves.
	Client client.Client

	call         *engine.Call
	current      T // what Diff leads to
	result       any
	resultErr    error
	subHandlers  []engine.Sub
	requeueAfter time.Duration
	errs         []error

	conditions   *conditions.Set
	conditionsOf client.Object // a handler may replace the pointer
}

// SetResult keeps a value in the object's status, under the handler's id (see [WithResults]), if the
// handler succeeds. It must have a JSON form; nil means no result. A structural schema must know the
// field, or preserve unknown ones, else the API server drops it.
//
// kopf: the value that a handler returns.
func (r *Request[T]) SetResult(value any) {
	var err error
	if r.result, err = match.ToJSONValue(value); err != nil {
		r.resultErr = Permanent(fmt.Errorf("the result has no JSON form: %w", err))
		return
	}
	r.resultErr = nil
}

// Result returns what [Request.SetResult] was given last, in its JSON form: for tests of handlers.
func (r *Request[T]) Result() any { return r.result }

// Latest returns the newest known state of the object, without a request to the API server: what the cache has
// seen last, or what a write of this operator has made of it since. It is a copy. Daemons use it to see
// how their object changes while they run; when it is gone, they get the last state that they have seen.
func (r *Request[T]) Latest() T {
	if r.call != nil && r.call.Latest != nil {
		if latest, ok := r.call.Latest().(T); ok {
			return latest
		}
	}
	return r.Object
}

// Field returns the value of the handler's own field (see [Field]), in its JSON form, as it was last
// handled and as it is being handled; nil if it is absent. For daemons, timers, OnEvent and indexes both are what it was
// when they were called. kopf: old, new of a handler with field=.
func (r *Request[T]) Field() (old, new any) {
	if r.call == nil {
		return nil, nil
	}
	return r.call.Field[0], r.call.Field[1]
}

// OldKnown is false for an object that is too large for its last handled configuration to be kept on it:
// it has changed, but Old and Diff are empty.
func (r *Request[T]) OldKnown() bool { return r.call == nil || r.call.OldKnown }

// Eventf posts a Kubernetes Event about the object. The type is "Normal" or "Warning"; the reason is why,
// in one word, as "Resized"; the action is what was done, in one word, as "Resize"; the note is for
// people, a format with its arguments. It does not wait for the API server, and does not fail: what the API would not take is
// logged. Each object has a quota, of 16 Events at once and one more every five minutes; what is beyond that is counted, and told by the next one.
//
// kopf: kopf.event, kopf.info, kopf.warn.
func (r *Request[T]) Eventf(eventType, reason, action, note string, args ...any) {
	if r.call != nil && r.call.Notify != nil {
		r.call.Notify(eventType, reason, action, note, args...)
	}
}

// Sub declares a sub-handler, which is called when this handler has returned nil, with retries, a progress
// and a result of its own, under the id "<handler>/<id>". The handler itself is done when all its
// sub-handlers are, be it that they have failed; until then it is called again, and has to declare the same
// ones, which costs none of its own [Retries]. Sub-handlers may declare others.
//
// kopf: @kopf.subhandler, kopf.register.
func (r *Request[T]) Sub(id string, fn Handler[T], opts ...HandlerOption) {
	h := typedHandler[T]{declaration: declaration{id: id, method: "Sub", handlerKind: subHandler}, fn: fn}
	h.apply(opts)
	if id == "" {
		h.addErrorf("the id is empty: give it a name, it is stored on the objects")
	}
	if fn == nil {
		h.addErrorf("the handler is nil: give it a function")
	}
	if r.call == nil {
		return // a test of the handler: nobody will call it
	}
	if f := h.Criteria.Field; f != nil && len(f.From)+len(f.To) > 0 && !r.call.Changes {
		h.addErrorf("From and To are for sub-handlers of handlers that are told of changes (OnUpdate, OnField)")
	}
	if !Reason(r.call.Reason).isCause() {
		h.addErrorf("there are no sub-handlers of %s handlers, which have no progress", r.call.Reason)
	}
	for _, err := range h.errs {
		r.errs = append(r.errs, Permanent(fmt.Errorf("%s: %w", h.displayName(), err)))
	}
	handler := h.Handler
	handler.Do = fn.forEngine(r.Client)
	r.subHandlers = append(r.subHandlers, engine.Sub{ID: r.call.ID + "/" + id, Handler: handler})
}
