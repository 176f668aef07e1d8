package kinds

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
)

// A Group is what kinds with a common cache share. All fixed kinds are in one group; every other kind has its own.
type Group struct {
	runtime  *Runtime
	settings engine.Settings
	cache    cache.Cache    // the cache of the kinds and their related kinds
	indexes  *operator.Gate // opens when the group's indexes are complete
	after    *operator.Gate // a second gate that the workers wait for; may be nil
	kinds    []Kind
	known    map[schema.GroupVersionKind]bool // the group's kinds, and the related kinds that a unit has claimed
	isWarm   bool                             // Warmup has filled the cache
	ownCache bool                             // the kind has its own cache
}

// NewGroup returns a group of kinds that share a cache. after is a second gate that the workers wait for; it may be nil. isWarm is true if
// Warmup has filled the cache.
func (r *Runtime) NewGroup(settings engine.Settings, objects cache.Cache, after *operator.Gate, kinds []Kind, isWarm bool) *Group {
	settings.Cache = objects
	g := &Group{
		runtime: r, settings: settings, cache: objects, indexes: operator.NewIndexGate(engineKinds(kinds)), after: after, kinds: kinds,
		known: map[schema.GroupVersionKind]bool{}, isWarm: isWarm,
	}
	for _, kind := range kinds {
		g.known[kind.GVK] = true
	}
	return g
}

// Units returns a unit for each kind in the group.
func (g *Group) Units(ctx context.Context) (units []*Unit, err error) {
	for _, kind := range g.kinds {
		unit, err := g.newUnit(ctx, kind)
		if err != nil {
			return nil, err
		}
		units = append(units, unit)
	}
	return units, nil
}

// claim returns a kind's related kinds whose watches no other unit checks yet. Units share these watches.
func (g *Group) claim(kind *Kind) (claimed []Related) {
	for _, c := range kind.Related {
		if !g.known[c.GVK] {
			g.known[c.GVK] = true
			claimed = append(claimed, c)
		}
	}
	return claimed
}

// Indexes returns the gate that opens when the group's indexes are complete.
func (g *Group) Indexes() *operator.Gate { return g.indexes }

// indexesSynced records that all indexes of the group have seen the whole first list.
func (g *Group) indexesSynced() {
	for _, kind := range g.kinds {
		kind.SetIndexesSynced(true)
	}
}
