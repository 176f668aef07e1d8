package objectstate

import "sync"

// Memos are values that handlers remember for as long as the process and the object live. The handlers
// of one object may run side by side with its background work. The zero value is empty.
type Memos struct {
	mu     sync.Mutex
	values map[any]any
}

// Load returns what is remembered under a key.
func (m *Memos) Load(key any) (value any, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok = m.values[key]
	return value, ok
}

// Store remembers a value under a key.
func (m *Memos) Store(key, value any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[any]any{}
	}
	m.values[key] = value
}
