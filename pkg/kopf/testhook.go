package kopf

import (
	"errors"
	"slices"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
)

// The test kit calls handlers with requests of its own.
func init() {
	testhook.Attach = func(request any, call *engine.Call) { request.(testRequest).attach(call) }
	testhook.Conclude = func(request any, err error) error { return request.(testRequest).finish(err) }
}

type testRequest interface {
	attach(call *engine.Call)
	finish(err error) error
}

func (r *Request[T]) attach(call *engine.Call) { r.call, r.current = call, r.Object }

// conclude takes in what the handler has said, by its error and beside it. Mistakes come first: they are permanent, whatever the
// error says.
func (r *Request[T]) finish(err error) error {
	r.applyConditions(err)
	r.call.Object = r.Object // the handler may have replaced the pointer
	if err == nil {
		r.call.Result, r.call.Subs, r.call.Again = r.result, r.subHandlers, r.requeueAfter
		err = r.resultErr
	}
	if len(r.errs) == 0 {
		return err
	}
	return errors.Join(append(slices.Clone(r.errs), err)...)
}
