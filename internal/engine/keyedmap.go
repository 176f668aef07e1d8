package engine

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// A keyedMap is a map for data that only a few objects have at a time. It is safe for concurrent use. The zero keyedMap is empty. Reading
// an empty keyedMap doesn't take a lock.
//
// Goroutines share the values, so don't change the fields or items of a stored value. Store a new value instead.
type keyedMap[K comparable, V any] struct {
	count  atomic.Int64
	mu     sync.Mutex
	values map[K]V
}

// Get returns a key's value, or the zero value if there is none.
func (m *keyedMap[K, V]) Get(key K) (value V) {
	if m.Len() == 0 {
		return value
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key]
}

// Set stores the value of a key.
func (m *keyedMap[K, V]) Set(key K, value V) {
	m.Update(key, func(V, bool) (V, bool) { return value, true })
}

// Take removes a key and returns its value, or the zero value if there is none.
func (m *keyedMap[K, V]) Take(key K) (value V) {
	if m.Len() == 0 {
		return value
	}
	m.Update(key, func(stored V, _ bool) (V, bool) {
		value = stored
		return stored, false
	})
	return value
}

// Update replaces a key's value with the one that change returns. If keep is false, it removes the key. Update locks the map during the
// call, so change must not use the map, except for Len.
func (m *keyedMap[K, V]) Update(key K, change func(stored V, found bool) (next V, keep bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	stored, found := m.values[key]
	if next, keep := change(stored, found); !keep {
		delete(m.values, key)
	} else if m.values == nil {
		m.values = map[K]V{key: next}
	} else {
		m.values[key] = next
	}
	m.count.Store(int64(len(m.values)))
}

// Keys returns the keys in random order.
func (m *keyedMap[K, V]) Keys() []K {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.values))
}

// Len returns the number of keys.
func (m *keyedMap[K, V]) Len() int { return int(m.count.Load()) }
