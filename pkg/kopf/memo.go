package kopf

import (
	"context"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// A Memo keeps one value for each object in memory, for example a connection. All handlers of the object share it, including admission
// handlers if this process handles the object (see [Resource.Validate]). The value is dropped when the object is deleted, or when the
// operator no longer handles it, for example because a different shard does. The functions of [OnStartup], [OnCleanup], [OnVersion] and
// [OnProbe] share one value for the operator. Create a Memo once with [NewMemo], for example as a package variable. The methods are safe
// for concurrent use.
//
// Equivalent in kopf: memo.
type Memo[V any] struct {
	name string
}

// NewMemo returns a memo for values of type V. The name appears in error messages.
func NewMemo[V any](name string) *Memo[V] { return &Memo[V]{name} }

// Load returns the value for the handler's object, or the zero value and false if there is none. It panics unless the context is a
// handler's or derived from it.
func (m *Memo[V]) Load(ctx context.Context) (value V, ok bool) {
	stored, ok := m.space(ctx).Load(m)
	if !ok {
		return value, false
	}
	return stored.(V), true
}

// Store sets the value for the handler's object. It panics unless the context is a handler's or derived from it.
func (m *Memo[V]) Store(ctx context.Context, value V) { m.space(ctx).Store(m, value) }

func (m *Memo[V]) space(ctx context.Context) *objectstate.Memos {
	memos := objectstate.MemosFromContext(ctx)
	if memos == nil {
		panic("kopf: memo " + m.name + " was called with a context that does not belong to a handler: pass the context of the handler")
	}
	return memos
}
