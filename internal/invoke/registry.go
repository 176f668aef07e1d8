package invoke

import (
	"fmt"
	"iter"
	"maps"
)

// Registry stores the handlers of one kind, of type H, by id and in the order of their registration. Ids and storage keys are unique. All
// handlers must be added before the engine starts, because reading takes no lock. The zero value is empty.
type Registry[H any] struct {
	ids      []string
	handlers map[string]H
	owners   map[string]string // handler ids by storage key
}

// Add adds a handler. key is where its progress is stored. Add fails if a different handler has the same id or key.
func (r *Registry[H]) Add(id, key string, handler H) error {
	if _, taken := r.handlers[id]; taken {
		return fmt.Errorf("the id %q is used twice: give one of the handlers another id, "+
			"or use On for one function with several reasons", id)
	}
	if owner, taken := r.owners[key]; taken {
		return fmt.Errorf("the ids %q and %q would be stored under one key (%s): rename one", owner, id, key)
	}
	if r.handlers == nil {
		r.handlers, r.owners = map[string]H{}, map[string]string{}
	}
	r.ids = append(r.ids, id)
	r.handlers[id], r.owners[key] = handler, id
	return nil
}

// IDs returns all ids in the order of registration. The result must not be changed.
func (r *Registry[H]) IDs() []string { return r.ids }

// Get returns the handler with this id.
func (r *Registry[H]) Get(id string) (H, bool) {
	h, ok := r.handlers[id]
	return h, ok
}

// All returns the handlers by id, in the order of registration.
func (r *Registry[H]) All() iter.Seq2[string, H] {
	return func(yield func(string, H) bool) {
		for _, id := range r.ids {
			if !yield(id, r.handlers[id]) {
				return
			}
		}
	}
}

// Map returns a registry in which each handler is replaced with the result of change.
func (r *Registry[H]) Map(change func(H) H) Registry[H] {
	changed := *r
	changed.handlers = maps.Clone(r.handlers)
	for id, handler := range changed.handlers {
		changed.handlers[id] = change(handler)
	}
	return changed
}

// Any reports whether condition holds for one of the handlers.
func (r *Registry[H]) Any(condition func(H) bool) bool {
	for _, handler := range r.All() {
		if condition(handler) {
			return true
		}
	}
	return false
}
