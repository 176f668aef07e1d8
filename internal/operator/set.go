package operator

import (
	"slices"
	"sync"
)

// Set is a list of what comes and goes while an operator runs, such as the engines of its kinds. The zero value is empty. A Set is safe for
// concurrent use.
type Set[T comparable] struct {
	mu    sync.Mutex
	items []T
}

// Add adds items that stay in the set until remove is called.
func (s *Set[T]) Add(items ...T) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(slices.Clone(s.items), items...)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.items = slices.DeleteFunc(slices.Clone(s.items), func(one T) bool { return slices.Contains(items, one) })
	}
}

// All returns the items. The caller must not change the slice.
func (s *Set[T]) All() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items
}
