package engine

import "sigs.k8s.io/controller-runtime/pkg/client"

// InProgress tells which handlers have begun with what has happened to an object, and are not done: those that have a
// record on it. For the test kit.
func (e *Engine) InProgress(obj client.Object) (ids []string) {
	for _, id := range e.Handlers.IDs() {
		if record, err := e.Store.Fetch(obj, id); err != nil || record != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// Picks tells whether predicates may keep objects from being looked at. For the test kit.
func (e *Engine) Picks() bool { return e.picks.Load() }
