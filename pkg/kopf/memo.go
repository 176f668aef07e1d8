package kopf

import (
	"context"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// A Memo is a place for a value that handlers remember of each object, in the process alone: connections,
// say, or what was observed. It is forgotten with the object, and when the process ends. [OnStartup] and
// [OnCleanup] have one for the operator as a whole. Admission handlers share it with the others where this process handles
// the object ([Resource.Validate]). Make it once, with [NewMemo], for instance as a
// package variable.
//
// kopf: memo.
type Memo[V any] struct {
	name string
}

// NewMemo makes a place for values of a type. The name is for people.
func NewMemo[V any](name string) *Memo[V] { return &Memo[V]{name} }

// Load returns what was stored for the object that a handler is called for; false if nothing was. The
// context is the handler's, or made of it; it panics with any other.
func (m *Memo[V]) Load(ctx context.Context) (value V, ok bool) {
	stored, ok := m.space(ctx).Load(m)
	if !ok {
		return value, false
	}
	return stored.(V), true
}

// Store remembers a value for the object that a handler is called for. The context is the handler's, or made of it; it
// panics with any other.
func (m *Memo[V]) Store(ctx context.Context, value V) { m.space(ctx).Store(m, value) }

func (m *Memo[V]) space(ctx context.Context) *objectstate.Memos {
	memos := objectstate.MemosFromContext(ctx)
	if memos == nil {
		panic("kopf: the memo " + m.name + " is used with a context that is not of a handler of a Resource: pass on the one that the handler was given")
	}
	return memos
}
