package kopf

import (
	"context"
	"iter"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// An Index is an in-memory map from keys to values that an index function computes from objects. Create it with [IndexBy]. The operator
// fills it when it starts, before it calls any handler, and updates it when objects change. For a kind with [WhenServed] or [ForKinds], it
// is filled before the handlers of this kind are called. The methods are safe for concurrent use.
//
// Equivalent in kopf: @kopf.index.
type Index[K comparable, V any] struct {
	values *valueIndex[K, V, types.UID]
	synced atomic.Bool
}

// HasSynced reports whether the index contains all objects of the first list. The handlers of objects are only called after that, but
// admission handlers can be called earlier: while the operator starts, or on a replica that is waiting to become the leader. On such a
// replica, the index stays empty unless EnableWarmup is set in the manager's controller options (see [Operator.Warmup]). An admission
// handler that needs the whole index should therefore reject requests while HasSynced returns false.
//
// HasSynced returns false again when the operator has stopped, or when the kind is no longer served (see [WhenServed]). With
// [WithNamespaces], it doesn't wait for namespaces that come into scope later.
//
// kopf has no equivalent.
func (x *Index[K, V]) HasSynced() bool { return x.synced.Load() }

// Get returns the values of a key in no particular order, or nil for an unknown key.
func (x *Index[K, V]) Get(key K) []V { return x.values.Get(key) }

// Has reports whether a key has values.
func (x *Index[K, V]) Has(key K) bool { return x.values.Has(key) }

// Len returns the number of keys.
func (x *Index[K, V]) Len() int { return x.values.Len() }

// All iterates over the keys and their values in no particular order.
func (x *Index[K, V]) All() iter.Seq2[K, []V] { return x.values.All() }

// IndexBy adds an index of the objects of a resource. The function returns the keys of an object, with a value for each key. It is called
// for each observed state of each object, before any other handler. It must return quickly, because the kind's watch waits for it. An empty
// map removes the object from the index; a nil map leaves its entries unchanged. Objects that are deleted or no longer match the filters
// are removed too.
//
// After a temporary error, the object is removed from the index until it is observed again after the delay, and after a permanent error
// until the operator restarts. Other errors leave its entries unchanged, unless [ErrorMode] is set.
func IndexBy[T client.Object, K comparable, V any](r *Resource[T], id string,
	fn func(ctx context.Context, req *Request[T]) (map[K]V, error), opts ...HandlerOption,
) *Index[K, V] {
	x := &Index[K, V]{values: newValueIndex[K, V, types.UID]()}
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
	r.indexes = append(r.indexes, typedIndex[T]{h, invoke.IndexHandler{
		Remove: x.values.Remove, Prune: x.values.Prune, SetSynced: x.synced.Store,
		Clear: func() {
			x.synced.Store(false)
			x.values.Clear()
		},
	}})
	return x
}
