package objectstate

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Sight is one observed state of an object.
type Sight struct {
	Object client.Object
	// Event is how it came: EventAdded, EventModified or EventDeleted; empty for the listing at the start.
	Event string
}

// The words for how a state came, as the API server has them.
const (
	EventAdded    = "ADDED"
	EventModified = "MODIFIED"
	EventDeleted  = "DELETED"
)

// see takes note of an observed state, if anybody wants to know.
func (i *Inventory) see(obj client.Object, event string) {
	if !i.wants.Sights {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	key := client.ObjectKeyFromObject(obj)
	i.sights[key] = append(i.sights[key], Sight{obj, event})
}

// Sights hands out what was observed under a name, in order, once.
func (i *Inventory) Sights(key types.NamespacedName) []Sight {
	i.mu.Lock()
	defer i.mu.Unlock()
	seen := i.sights[key]
	delete(i.sights, key)
	return seen
}
