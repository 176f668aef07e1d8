package kopf

import (
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
)

// Package kopftest calls handlers with its own requests.
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
