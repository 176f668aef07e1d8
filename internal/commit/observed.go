package commit

import (
	"slices"
	"strings"
	"sync"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// maxObserved limits how many places and condition types are remembered for a kind, because there can be any number of map keys.
const maxObserved = 1000

// Observed are the places where the operator writes the observed generation for a kind's objects: fields, list items and conditions. After
// only our own write has raised the generation, the status in these places still describes the object.
//
// It is safe for concurrent use. The zero value is ready to use.
type Observed struct {
	mu     sync.RWMutex
	types  []string
	places []patch.Observation
	known  map[string]bool
}

// AddCondition adds the type of a condition that the operator sets.
func (o *Observed) AddCondition(conditionType string) {
	o.add("condition "+conditionType, func() { o.types = append(o.types, conditionType) })
}

// AddPlaces adds places where a handler has set the observed generation.
func (o *Observed) AddPlaces(places []patch.Observation) {
	for _, place := range places {
		if !place.IsPermanent() {
			continue
		}
		place = place.WithoutValues()
		name, value := place.Key()
		o.add(strings.Join(append(slices.Clip(place.Path), name, value), "\x00"), func() { o.places = append(o.places, place) })
	}
}

func (o *Observed) add(key string, add func()) {
	o.mu.RLock()
	known := o.known[key]
	o.mu.RUnlock()
	if known {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known[key] || len(o.known) >= maxObserved {
		return
	}
	if o.known == nil {
		o.known = map[string]bool{}
	}
	o.known[key] = true
	add()
}

// ConditionTypes returns the condition types that the operator sets.
func (o *Observed) ConditionTypes() []string {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.Clip(o.types)
}

// Places returns the places where handlers have set the observed generation.
func (o *Observed) Places() []patch.Observation {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.Clip(o.places)
}

// IsEmpty reports whether there are neither conditions nor places.
func (o *Observed) IsEmpty() bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return len(o.known) == 0
}
