package objectstate

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// IsKnown reports whether the store has a state for an object.
func (s *Store[W]) IsKnown(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.states[uid]
	return known
}

// Keys returns, in random order, the keys with an object, an object that has left, or an event, if match returns true for them.
func (s *Store[W]) Keys(match func(types.NamespacedName) bool) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[types.NamespacedName]bool{}
	for _, key := range s.current.keys(match) {
		found[key] = true
	}
	collect(found, s.left, match)
	collect(found, s.events, match)
	return slices.Collect(maps.Keys(found))
}

func collect[V any](into map[types.NamespacedName]bool, from map[types.NamespacedName]V, match func(types.NamespacedName) bool) {
	for key := range from {
		if match(key) {
			into[key] = true
		}
	}
}

// ForgetKey removes a key's data and the states of its objects.
func (s *Store[W]) ForgetKey(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.current.get(key); state != nil {
		s.forget(state.observed.GetUID())
	}
	for _, obj := range s.left[key] {
		s.forget(obj.GetUID())
	}
	s.current.remove(key)
	delete(s.left, key)
	delete(s.queued, key)
	delete(s.skipped, key)
	delete(s.dirty, key)
	delete(s.events, key)
}
