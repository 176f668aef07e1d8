package kopf

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/indexing"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// An Index maps keys to values of objects, in memory. Create it with [IndexBy]. It is complete before the operator calls the first handler, and
// follows the changes of the objects. Its methods are safe for concurrent use.
//
// kopf: @kopf.index.
type Index[K comparable, V any] struct {
	values *indexing.Index[K, V, types.UID]
}

// Get returns the values of a key in no particular order, or nil for an unknown key.
func (x *Index[K, V]) Get(key K) []V { return x.values.Get(key) }

// Has reports whether a key has values.
func (x *Index[K, V]) Has(key K) bool { return x.values.Has(key) }

// Len returns the number of keys.
func (x *Index[K, V]) Len() int { return x.values.Len() }

// All iterates over the keys and their values in no particular order.
func (x *Index[K, V]) All() iter.Seq2[K, []V] { return x.values.All() }

// IndexBy adds an index of the objects of a resource. The function returns the keys of an object, and the value for each of them. The operator
// calls it for each observed state of each object, before any other handler, so it must return quickly. An empty map removes the object from
// the index. A nil map leaves its entries unchanged. Objects that are deleted or no longer match the filters are removed.
//
// After a temporary error, the object is removed until its next state that is observed after the delay. After a permanent error, it is removed
// until the operator restarts. Other errors leave its entries unchanged, unless [ErrorMode] is set.
func IndexBy[T client.Object, K comparable, V any](r *Resource[T], id string,
	fn func(ctx context.Context, req *Request[T]) (map[K]V, error), opts ...HandlerOption,
) *Index[K, V] {
	x := &Index[K, V]{indexing.New[K, V, types.UID]()}
	var set Handler[T]
	if fn != nil {
		set = func(ctx context.Context, req *Request[T]) error {
			values, err := fn(ctx, req)
			if err == nil && values != nil {
				x.values.Set(req.Object.GetUID(), values)
			}
			return err
		}
	}
	h := &typedHandler[T]{declaration: declaration{id: id, method: "IndexBy", handlerKind: indexHandler}, fn: set, when: r.when}
	if fn == nil {
		h.addErrorf("the function is nil: pass a function")
	}
	h.Policy.Errors = progress.ErrorsIgnored
	h.apply(opts)
	r.indexes = append(r.indexes, typedIndex[T]{h, x.values.Remove, x.values.Clear})
	return x
}

// A typedIndex is the declaration of the function of an index, with the operations that the engine needs.
type typedIndex[T client.Object] struct {
	*typedHandler[T]
	remove func(types.UID)
	clear  func()
}

func (x typedIndex[T]) register(kind *engine.Kind, handler engine.Handler) error {
	return kind.Indexes.Add(x.id, x.id, engine.Indexed{Handler: handler, Remove: x.remove, Clear: x.clear})
}
