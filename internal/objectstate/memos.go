package objectstate

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// Memos are values that handlers keep in memory for an object, until it is deleted or the process exits. The zero value is empty. Memos are
// safe for concurrent use by handlers, daemons and timers.
type Memos struct {
	values atomic.Pointer[sync.Map] // nil until a value is stored
}

// Load returns the value stored for a key; ok is false if there is none.
func (m *Memos) Load(key any) (value any, ok bool) {
	if values := m.values.Load(); values != nil {
		return values.Load(key)
	}
	return nil, false
}

// Store stores a value for a key.
func (m *Memos) Store(key, value any) {
	if m.values.Load() == nil {
		m.values.CompareAndSwap(nil, &sync.Map{})
	}
	m.values.Load().Store(key, value)
}

// Memos returns an object's memos. For an unknown object, they are empty and the store doesn't keep them.
func (s *Store[W]) Memos(uid types.UID) *Memos {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, known := s.states[uid]
	if !known {
		return &Memos{}
	}
	return &state.memos
}

type memosKey struct{}

// ContextWithMemos returns a context with an object's memos, for the object's handlers.
func ContextWithMemos(ctx context.Context, memos *Memos) context.Context {
	return context.WithValue(ctx, memosKey{}, memos)
}

// MemosFromContext returns the memos in a handler's context, or nil in other contexts.
func MemosFromContext(ctx context.Context) *Memos {
	memos, _ := ctx.Value(memosKey{}).(*Memos)
	return memos
}
