package kopf

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// OnChange adds a handler for a change of what a function gets from the objects: [Resource.OnField], typed.
// It is called when the value is another one than in the object as it was last handled, whatever has
// happened to the object; when that is new, the old value is the zero value. Values are compared in their
// JSON form. Only what is essential has an old value: the spec and the like, labels and annotations. To watch a field of the
// status, also give the option [Field] with its path.
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
		h.addErrorf("the function to get the value with is nil: give it one")
	}
	h.changed = func(req *Request[T]) bool {
		old, new := oldAndNew(req, get)
		return !equalJSON(old, new)
	}
	return r.addHandler(h, opts)
}

func oldAndNew[T client.Object, V any](req *Request[T], get func(T) V) (old, new V) {
	if !isNil(req.Old) {
		old = get(req.Old)
	}
	return old, get(req.current)
}

func equalJSON(a, b any) bool {
	one, err := match.ToJSONValue(a)
	if err != nil {
		return false
	}
	other, err := match.ToJSONValue(b)
	return err == nil && diff.Equal(one, other)
}
