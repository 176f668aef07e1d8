package kopf

import (
	"errors"
	"slices"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
)

// The test kit calls handlers with requests of its own.
func init() {
	testhook.Attach = func(request any, call *engine.Call) { request.(bridged).attach(call) }
	testhook.Conclude = func(request any, err error) error { return request.(bridged).conclude(err) }
}

type bridged interface {
	attach(call *engine.Call)
	conclude(err error) error
}

func (r *Request[T]) attach(call *engine.Call) { r.call, r.handled = call, r.Object }

// conclude takes in what the handler has said, by its error and beside it. Mistakes come first: they are permanent, whatever the
// error says.
func (r *Request[T]) conclude(err error) error {
	r.settleConditions(err)
	r.call.Object = r.Object // the handler may have replaced the pointer
	if err == nil {
		r.call.Result, r.call.Subs, r.call.Again = r.result, r.subs, r.again
		err = r.broken
	}
	if len(r.mistakes) == 0 {
		return err
	}
	return errors.Join(append(slices.Clone(r.mistakes), err)...)
}
