package kopf

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/diff"
)

// A Handler is a function that is called for what has happened to an object. When it returns nil,
// it is done, and never called again for this cause, not even after a restart. Any other error
// means: call me again. See [Temporary] and [Permanent].
//
// Its logger is in the context: log.FromContext(ctx) of controller-runtime names the kind, the
// namespace, the name and the uid of the object, the handler, the reason and the attempt.
type Handler[T client.Object] func(ctx context.Context, req *Request[T]) error

// A Request is what a handler is told.
type Request[T client.Object] struct {
	// Object is a private copy, shared by the handlers of one pass. What they change in it is
	// patched at the end of the pass, also when they fail; the request need not be made by hand.
	Object T
	// Old is the object as it was last handled: its essential stanzas (the spec and the like),
	// labels and annotations. The zero value (nil) on creation. kopf: old.
	Old T
	// Diff leads from Old to Object. kopf: diff.
	Diff diff.Diff
	// Reason is what has happened. A resume handler that joins another cause sees that cause. kopf: reason.
	Reason Reason
	// Attempt counts the calls for this cause. kopf: retry, started.
	Attempt Attempt
	// Client is the manager's: it reads from the cache.
	Client client.Client

	result any
	broken error
}

// SetResult keeps a value in the object's status, under the handler's id (see [WithResults]), if the
// handler succeeds. It must have a JSON form; nil means no result. A structural schema must know the
// field, or preserve unknown ones, else the API server drops it.
//
// kopf: the value that a handler returns.
func (r *Request[T]) SetResult(value any) {
	r.result, r.broken = jsonForm(value)
}

// Result returns what [Request.SetResult] was given last, in its JSON form: for tests of handlers.
func (r *Request[T]) Result() any { return r.result }

// do makes the handler one that the engine can call.
func (h Handler[T]) do(c client.Client) func(ctx context.Context, call *engine.Call) error {
	return func(ctx context.Context, call *engine.Call) error {
		object, ok := call.Object.(T)
		if !ok {
			return errors.New("the object is of another Go type than the handler expects: this is a defect of the library")
		}
		req := &Request[T]{
			Object: object, Diff: call.Diff, Reason: Reason(call.Reason), Attempt: call.Attempt, Client: c,
		}
		if old, ok := call.Old.(T); ok {
			req.Old = old
		}
		if err := h(ctx, req); err != nil {
			return err
		}
		call.Result = req.result
		return req.broken
	}
}
