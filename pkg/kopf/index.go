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

// An Index finds values of objects by keys, in memory. Make it with [IndexBy]. It is complete before the
// first handler of the operator is called, and follows the objects while it runs; lookups may come from
// anywhere. kopf: @kopf.index.
type Index[K comparable, V any] struct {
	values *indexing.Index[K, V, types.UID]
}

// Get returns the values of a key, in no particular order; nil if there are none.
func (x *Index[K, V]) Get(key K) []V { return x.values.Get(key) }

// Has reports whether a key has values.
func (x *Index[K, V]) Has(key K) bool { return x.values.Has(key) }

// Len counts the keys.
func (x *Index[K, V]) Len() int { return x.values.Len() }

// All goes through the keys and their values, in no particular order.
func (x *Index[K, V]) All() iter.Seq2[K, []V] { return x.values.All() }

// IndexBy adds an index over the objects of a resource. The function tells under which keys an object is
// found, and with which value under each; it is called for every state of every object, before any other
// handler, and has to be quick: a calculation over the object. An empty map takes the object out of the
// index, a nil one leaves it as it is. Objects that are gone, or do not pass the filters, are taken out.
//
// An unknown error leaves the object in the index as it is (see [Errors]); a temporary one takes it out until
// its next state after the delay, a permanent one for good.
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
		h.addErrorf("the function is nil: give it one")
	}
	h.Policy.Errors = progress.ErrorsIgnored
	h.apply(opts)
	r.indexes = append(r.indexes, indexOf[T]{h, x.values.Remove, x.values.Clear})
	return x
}

type indexOf[T client.Object] struct {
	*typedHandler[T]
	remove func(types.UID)
	clear  func()
}

func (x indexOf[T]) register(kind *engine.Kind, handler engine.Handler) error {
	return kind.Indexes.Add(x.id, x.id, engine.Indexed{Handler: handler, Remove: x.remove, Clear: x.clear})
}
