package engine

import (
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// InProgress tells which handlers have begun with what has happened to an object, and are not done, and until when they are delayed. If
// all are done and only their records are left, those. For the test kit.
func (e *Engine) InProgress(obj client.Object) (texts []string) {
	var finished []string
	for _, id := range e.Handlers.IDs() {
		record, err := e.Store.Fetch(obj, id)
		switch {
		case err != nil:
			texts = append(texts, fmt.Sprintf("%s (its record cannot be read: %v)", id, err))
		case record == nil:
		case record.Finished():
			finished = append(finished, id)
		case record.Delayed.IsZero():
			texts = append(texts, id)
		default:
			texts = append(texts, fmt.Sprintf("%s (delayed until %s)", id, record.Delayed.UTC().Format(time.RFC3339)))
		}
	}
	if len(texts) == 0 {
		return finished
	}
	return texts
}

// Picks tells whether predicates may keep objects from being looked at. For the test kit.
func (e *Engine) HasPredicates() bool { return e.hasPredicates.Load() }
