package objectstate

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Event is one observed event of an object.
type Event struct {
	Object client.Object
	// Type is ADDED, MODIFIED or DELETED; empty for objects of the first listing.
	Type string
	// Inferred is true for a deletion that the watch has not reported: a later list lacked the object.
	Inferred bool
}

// The types of events. The watch API uses the same values.
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

// TakeEvents returns and clears the events recorded for key, in the order of their arrival.
func (s *Store[W]) TakeEvents(key types.NamespacedName) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.events[key]
	delete(s.events, key)
	return events
}
