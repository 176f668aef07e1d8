package kopf

import (
	"errors"
	"slices"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
)

// Package kopftest calls handlers with requests that it has created.
func init() {
	testhook.BindCall = func(request any, call *invoke.Request) { request.(testRequest).attach(call) }
	testhook.FinishCall = func(request any, err error) error { return request.(testRequest).finish(err) }
}

// A testRequest is a [Request] for any type of object.
type testRequest interface {
	attach(call *invoke.Request)
	finish(err error) error
}

func (r *Request[T]) attach(call *invoke.Request) { r.call, r.current = call, r.Object }

// finish copies the results of the handler to the call of the engine, and returns the error of the attempt. err is the error of the handler.
// If the request has errors, such as an invalid condition, finish joins them with err. They are permanent and come first, so the attempt
// fails permanently even if err is temporary.
func (r *Request[T]) finish(err error) error {
	r.applyConditions(err)
	r.call.Object = r.Object                     // the handler may have replaced the pointer
	r.call.Requeue.Priority = r.requeue.Priority // as in controller-runtime, also after an error
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
