package objectstate

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Event is an observed event of an object.
type Event struct {
	Object client.Object
	// Type is ADDED, MODIFIED or DELETED; empty for objects in the first listing.
	Type string
	// Inferred is true if the watch has not reported the deletion, but the object was missing from a later list.
	Inferred bool
}

// The event types have the same values as in the watch API.
const (
	eventAdded    = "ADDED"
	eventModified = "MODIFIED"
	eventDeleted  = "DELETED"
)

// IsDeletion reports whether the object was deleted.
func (e Event) IsDeletion() bool { return e.Type == eventDeleted }

// recordEvent records an event if [Options.RecordEvents] is set.
func (s *Store[W]) recordEvent(event Event) {
	if !s.options.RecordEvents {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(event.Object)
	s.events[key] = append(s.events[key], event)
}

// TakeEvents returns and clears the events recorded for key, oldest first.
func (s *Store[W]) TakeEvents(key types.NamespacedName) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.events[key]
	delete(s.events, key)
	return events
}
