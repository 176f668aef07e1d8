package kopf

import (
	"iter"
	"sync"
)

// A valueIndex stores objects' values by key. Each object has an id, and at most one value for each key. The size of the index doesn't
// affect the cost of an update or a lookup. A valueIndex is safe for concurrent use, but only one goroutine at a time may update the values
// of an object.
type valueIndex[K comparable, V any, ID comparable] struct {
	mu     sync.RWMutex
	values map[K]map[ID]V
	keys   map[ID][]K // the keys under which an object has values
}

// newValueIndex returns an empty index.
func newValueIndex[K comparable, V any, ID comparable]() *valueIndex[K, V, ID] {
	return &valueIndex[K, V, ID]{values: map[K]map[ID]V{}, keys: map[ID][]K{}}
}

// Set replaces all values of an object. It copies the map.
func (x *valueIndex[K, V, ID]) Set(id ID, values map[K]V) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, key := range x.keys[id] {
		if _, found := values[key]; !found {
			x.drop(id, key)
		}
	}
	if len(values) == 0 {
		delete(x.keys, id)
		return
	}
	keys := make([]K, 0, len(values))
	for key, value := range values {
		if x.values[key] == nil {
			x.values[key] = map[ID]V{}
		}
		x.values[key][id] = value
		keys = append(keys, key)
	}
	x.keys[id] = keys
}

// Remove removes all values of an object.
func (x *valueIndex[K, V, ID]) Remove(id ID) { x.Set(id, nil) }

// Clear removes the values of all objects.
func (x *valueIndex[K, V, ID]) Clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.values)
	clear(x.keys)
}

// Prune removes the values of all objects for which keep returns false. keep must not use the index.
func (x *valueIndex[K, V, ID]) Prune(keep func(ID) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, keys := range x.keys {
		if keep(id) {
			continue
		}
		for _, key := range keys {
			x.drop(id, key)
		}
		delete(x.keys, id)
	}
}

func (x *valueIndex[K, V, ID]) drop(id ID, key K) {
	delete(x.values[key], id)
	if len(x.values[key]) == 0 {
		delete(x.values, key)
	}
}

// Get returns a copy of a key's values, in no particular order. It returns nil if there are none.
func (x *valueIndex[K, V, ID]) Get(key K) []V {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(x.values[key]) == 0 {
		return nil
	}
	out := make([]V, 0, len(x.values[key]))
	for _, value := range x.values[key] {
		out = append(out, value)
	}
	return out
}

// Has reports whether a key has values.
func (x *valueIndex[K, V, ID]) Has(key K) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.values[key]) > 0
}

// Len returns the number of keys.
func (x *valueIndex[K, V, ID]) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.values)
}

// All iterates over the keys in no particular order, with a copy of each key's values. It doesn't hold the lock between keys, so it skips
// keys that are removed during the iteration.
func (x *valueIndex[K, V, ID]) All() iter.Seq2[K, []V] {
	return func(yield func(K, []V) bool) {
		x.mu.RLock()
		keys := make([]K, 0, len(x.values))
		for key := range x.values {
			keys = append(keys, key)
		}
		x.mu.RUnlock()
		for _, key := range keys {
			if values := x.Get(key); values != nil && !yield(key, values) {
				return
			}
		}
	}
}
