package registry

import "fmt"

// A Registry keeps handlers in the order in which they were added, and knows them by their ids.
type Registry[H any] struct {
	ids      []string
	handlers map[string]H
	owners   map[string]string // key in the store → id
}

// Add takes in a handler. The key is where its progress is stored: two handlers must not share one.
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

// IDs returns all ids, in the order of registration.
func (r *Registry[H]) IDs() []string { return r.ids }

// Get returns the handler of an id.
func (r *Registry[H]) Get(id string) (H, bool) {
	h, ok := r.handlers[id]
	return h, ok
}

// Select returns the ids of the handlers that satisfy a condition, in order.
func (r *Registry[H]) Select(want func(H) bool) []string {
	var ids []string
	for _, id := range r.ids {
		if want(r.handlers[id]) {
			ids = append(ids, id)
		}
	}
	return ids
}
