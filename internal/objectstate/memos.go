package objectstate

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Memos are values that handlers store for an object in memory. They exist until the object is deleted or the process ends. The zero value is
// empty. Memos are safe for concurrent use by handlers, daemons and timers.
type Memos struct {
	mu     sync.Mutex
	values map[any]any
}

// Load returns the value stored for a key; ok is false if there is none.
func (m *Memos) Load(key any) (value any, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok = m.values[key]
	return value, ok
}

// Store stores a value for a key.
func (m *Memos) Store(key, value any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[any]any{}
	}
	m.values[key] = value
}

// Memos returns the memos of an object. For an unknown object, it returns empty memos that the store does not keep.
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

// ContextWithMemos returns a context with the memos of an object, for a handler of that object.
func ContextWithMemos(ctx context.Context, memos *Memos) context.Context {
	return context.WithValue(ctx, memosKey{}, memos)
}

// MemosFromContext returns the memos in the context of a handler. It returns nil for other contexts.
func MemosFromContext(ctx context.Context) *Memos {
	memos, _ := ctx.Value(memosKey{}).(*Memos)
	return memos
}
