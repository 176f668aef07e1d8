package kopf

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A Handler is a function that is called for what has happened to an object. When it returns nil,
// it is done, and never called again for this cause, not even after a restart. Any other error
// means: call me again. See [Temporary] and [Permanent].
//
// Its logger is in the context: log.FromContext(ctx) of controller-runtime names the kind, the
// namespace, the name and the uid of the object, the handler, the reason and the attempt.
type Handler[T client.Object] func(ctx context.Context, req *Request[T]) error

// A Middleware makes a handler of a handler: see [Resource.Use].
type Middleware[T client.Object] func(next Handler[T]) Handler[T]

// do makes the handler one that the engine can call.
func (h Handler[T]) forEngine(c client.Client) func(ctx context.Context, call *engine.Call) error {
	return func(ctx context.Context, call *engine.Call) (err error) {
		req, err := newRequest[T](call)
		if err != nil {
			return err
		}
		req.Client = c
		if call.Record != nil {
			req.Client = call.Record(c)
		}
		if ended := testhook.Called(ctx, call); ended != nil {
			defer reportOutcome(ended, &err)()
		}
		err = errExited
		err = req.finish(h(ctx, req))
		return err
	}
}

// tell passes on to an observer how a handler has ended, panics included, which go on.
func reportOutcome(ended func(error), err *error) func() {
	return func() {
		value := recover()
		if value == nil {
			ended(*err)
			return
		}
		ended(&progress.PanicError{Value: value})
		panic(value)
	}
}

// errExited is what observers are told of a handler that has not returned.
var errExited = errors.New("it has ended its goroutine")

// requestOf is what a handler, or a filter, is told.
func newRequest[T client.Object](call *engine.Call) (*Request[T], error) {
	object, ok := call.Object.(T)
	if !ok {
		return nil, errors.New("the object is of another Go type than the handler expects: this is a defect of the library")
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
