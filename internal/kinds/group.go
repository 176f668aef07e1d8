package kinds

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
)

// A Group contains kinds whose controllers start and stop together.
type Group struct {
	runtime      *Runtime
	cache        cache.Cache // the cache of the kinds and their related kinds
	sources      cache.Cache // the cache for the sources of the controllers: see handlersEndWith
	stopSources  func()
	epoch        operator.Epoch
	after        *operator.Gate // another gate for which the workers wait; nil if there is none
	indexes      *operator.Gate // opens when the indexes of the group are complete
	kinds        []Kind
	engines      []*engine.Engine
	controllers  []controller.Controller
	checkWatches func(context.Context)
	eventWatches []*eventWatches
	decoded      []decodedKind
	observed     map[*engine.Engine]chan struct{} // closed when the engine has observed the listed objects
	synced       func()                           // called for each synced source
	warm         map[*engine.Engine]*verification // for kinds whose caches Warmup has filled; nil without Warmup
}

// NewGroup returns a group with an engine and a controller for each kind. It starts nothing. after is another gate for which the workers wait; nil if there is none.
// synced is called for each synced source: for the objects of each kind, and for its indexes.
func (r *Runtime) NewGroup(ctx context.Context, settings engine.Settings, objects cache.Cache, after *operator.Gate, kinds []Kind, synced func()) (*Group, error) {
	g := &Group{
		runtime: r, cache: objects, after: after, indexes: operator.NewIndexGate(engineKinds(kinds)), kinds: kinds, synced: synced, observed: map[*engine.Engine]chan struct{}{},
		epoch: operator.Epoch{Reader: r.Manager.GetAPIReader(), Log: r.Manager.GetLogger(), Cache: objects, EachNamespace: r.Namespaces != nil},
	}
	g.sources, g.stopSources = handlersEndWith(r.Manager, objects)
	settings.Cache = objects
	for _, kind := range kinds {
		kind.CallsUserCode = callsUserCode(&r.Settings, &kind.Kind)
		settings.Selective, settings.Selects, settings.Shard = r.selectorOf(&kind.Kind) != nil, r.selects(&kind.Kind), r.Ring.ShardOf(&kind.Kind)
		if r.Warmth.of(kind.Name) == nil {
			kind.ClearIndexes()
		}
		e := engine.New(settings, kind.Kind)
		g.epoch.Set(ctx, e)
		g.observed[e] = make(chan struct{})
		c, err := g.newController(ctx, e, &kind)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind.GVK.Kind, err)
		}
		g.engines, g.controllers = append(g.engines, e), append(g.controllers, c)
	}
	g.decoded = g.decodedKinds()
	var err error
	if g.checkWatches, err = g.watchCheckers(); err != nil {
		return nil, err
	}
	g.eventWatches, err = g.prepareEventWatches()
	return g, err
}

// Engines returns the engines of the group.
func (g *Group) Engines() []*engine.Engine { return g.engines }

// Indexes returns the gate that opens when the indexes of the group are complete.
func (g *Group) Indexes() *operator.Gate { return g.indexes }

// Run runs the controllers until the context is cancelled, or until one of them fails.
func (g *Group) Run(ctx context.Context) error {
	defer g.stopSources()
	defer g.setIndexesSynced(false)
	defer g.runtime.Watches.events.Add(g.eventWatches...)()
	defer g.runtime.Watches.undecodable.addKinds(g)()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { g.checkWatches(ctx); return nil })
	group.Go(func() error { g.runEventWatches(ctx); return nil })
	group.Go(func() error { g.explainUnsynced(ctx); return nil })
	group.Go(func() error {
		<-ctx.Done() // a group without controllers runs until this wait ends
		return nil
	})
	for e, observed := range g.observed {
		group.Go(func() error {
			select {
			case <-observed:
				e.ReportLeftFinalizers()
			case <-ctx.Done():
			}
			return nil
		})
	}
	for e, v := range g.warm {
		group.Go(func() error { g.verifyCache(ctx, e, v); return nil })
	}
	for i, c := range g.controllers {
		defer func() {
			g.engines[i].Close()
			g.runtime.Ring.AddEnded(g.engines[i])
		}()
		group.Go(func() error { return g.engines[i].Background(ctx) })
		group.Go(func() error {
			if err := c.Start(ctx); err != nil {
				return g.explainStartError(fmt.Errorf("%s: %w", g.kinds[i].GVK.Kind, err))
			}
			return nil
		})
	}
	return group.Wait()
}

// clearIndexes removes all objects from the indexes of the group.
func (g *Group) clearIndexes() {
	for _, kind := range g.kinds {
		kind.ClearIndexes()
	}
}

// setIndexesSynced records whether all indexes of the group have seen the whole first list.
func (g *Group) setIndexesSynced(synced bool) {
	for _, kind := range g.kinds {
		kind.SetIndexesSynced(synced)
	}
}
