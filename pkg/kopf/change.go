package kopf

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// OnChange adds a cause handler for changes to a computed value. It is the typed form of [Resource.OnField]. The function get returns the
// value for an object, and must not change the object. For each cause, the operator computes the value for the last-handled configuration
// and for the current state, and calls the handler if their JSON forms differ. Without a last-handled configuration, for example for a new
// object, the old value is zero. If [Request.OldKnown] returns false, it is zero too, and the handler is called for each update.
//
// The last-handled configuration doesn't contain the status. To react to a status field, pass [Field] with its path as well.
func OnChange[T client.Object, V any](r *Resource[T], id string, get func(T) V,
	fn func(ctx context.Context, req *Request[T], old, new V) error, opts ...HandlerOption,
) *Resource[T] {
	var call Handler[T]
	if fn != nil {
		call = func(ctx context.Context, req *Request[T]) error {
			old, new := oldAndNew(req, get)
			return fn(ctx, req, old, new)
		}
	}
	h := r.newHandler("OnChange", id, call)
	h.AnyReason = true
	if get == nil {
		h.addErrorf("the function that computes the value is nil: pass a function")
	}
	h.changed = func(req *Request[T]) bool {
		old, new := oldAndNew(req, get)
		return !req.OldKnown() || !equalJSON(old, new)
	}
	return r.addHandler(h, opts)
}

// oldAndNew returns the values for the last-handled configuration and for the state being handled. Without a last-handled configuration,
// the old value is zero.
func oldAndNew[T client.Object, V any](req *Request[T], get func(T) V) (old, new V) {
	if !isNil(req.Old) {
		old = get(req.Old)
	}
	return old, get(req.current)
}

// equalJSON reports whether the JSON forms of the values are equal. It returns false if a value has no JSON form.
func equalJSON(a, b any) bool {
	first, err := match.ToJSONValue(a)
	if err != nil {
		return false
	}
	second, err := match.ToJSONValue(b)
	return err == nil && diff.Equal(first, second)
}
