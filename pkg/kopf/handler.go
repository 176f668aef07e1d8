package kopf

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A Handler is a function that the operator calls for an object. A cause handler that returns nil has succeeded: the operator does not call
// it again for this cause, not even after a restart. By default, the operator retries the handler after an error. Return a [Temporary] error
// to set the delay, and a [Permanent] error to stop the retries. The operator treats a panic as an error, and a call of [runtime.Goexit] as a panic.
//
// log.FromContext(ctx) of controller-runtime returns a logger with the kind, namespace, name and uid of the object, the handler, the reason
// and the attempt.
type Handler[T client.Object] func(ctx context.Context, req *Request[T]) error

// A Middleware wraps a handler. See [Resource.Use].
type Middleware[T client.Object] func(next Handler[T]) Handler[T]

// forEngine returns the handler in the form that the engine calls. hasGoroutine is true for daemons and timers, because package daemons handles their calls of
// runtime.Goexit.
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

// newRequest returns the request for a handler or a predicate.
func newRequest[T client.Object](call *invoke.Request) (*Request[T], error) {
	object, ok := call.Object.(T)
	if !ok {
		return nil, fmt.Errorf("the object has the Go type %T, which the handler does not expect: report this as a bug of kopf-runtime", call.Object)
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
