package kopf

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
)

// A kindGroup contains kinds whose controllers start and stop together.
type kindGroup struct {
	operator     *Operator
	cache        cache.Cache // the cache of the kinds and their related kinds
	sources      cache.Cache // the cache for the sources of the controllers: see handlersEndWith
	stopSources  func()
	epoch        operator.Epoch
	after        *operator.Gate // another gate for which the workers wait; nil if there is none
	indexes      *operator.Gate // opens when the indexes of the group are complete
	kinds        []engine.Kind
	engines      []*engine.Engine
	controllers  []controller.Controller
	checkWatches func(context.Context)
	eventWatches []*eventWatches
	decoded      []decodedKind
	observed     map[*engine.Engine]chan struct{} // closed when the engine has observed the listed objects
	synced       func()                           // called for each synced source
	warm         map[*engine.Engine]*verification // for kinds whose caches Warmup has filled; nil without Warmup
}

// newKindGroup returns a group with an engine and a controller for each kind. It starts nothing.
func (o *Operator) newKindGroup(
	ctx context.Context, settings engine.Settings, objects cache.Cache, after *operator.Gate, kinds []engine.Kind, resources []resource, scopes []bool, synced func(),
) (*kindGroup, error) {
	g := &kindGroup{operator: o, cache: objects, after: after, indexes: operator.NewIndexGate(kinds), kinds: kinds, synced: synced, observed: map[*engine.Engine]chan struct{}{}}
	g.sources, g.stopSources = o.handlersEndWith(objects)
	g.epoch = operator.Epoch{Reader: o.mgr.GetAPIReader(), Log: o.mgr.GetLogger(), Cache: objects, EachNamespace: o.namespaces != nil}
	settings.Cache = objects
	for i, kind := range kinds {
		kind.Namespaced, kind.CallsUserCode = scopes[i], o.callsUserCode(&kind)
		settings.Selective, settings.Selects, settings.Shard = o.selectorOf(&kind) != nil, o.selects(&kind), o.ring.ShardOf(&kind)
		if o.fixed.warm.of(kind.Name) == nil {
			kind.ClearIndexes()
		}
		e := engine.New(settings, kind)
		g.epoch.Set(ctx, e)
		g.observed[e] = make(chan struct{})
		c, err := g.newController(ctx, e, resources[i], scopes[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind.GVK.Kind, err)
		}
		g.engines, g.controllers = append(g.engines, e), append(g.controllers, c)
	}
	g.decoded = g.decodedKinds(resources)
	var err error
	if g.checkWatches, err = g.watchCheckers(resources); err != nil {
		return nil, err
	}
	g.eventWatches, err = g.prepareEventWatches(resources)
	return g, err
}

// run runs the controllers until the context is cancelled, or until one of them fails.
func (g *kindGroup) run(ctx context.Context) error {
	defer g.stopSources()
	defer g.setIndexesSynced(false)
	defer g.operator.watches.events.Add(g.eventWatches...)()
	defer g.operator.watches.undecodable.addKinds(g)()
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
			g.operator.ring.AddEnded(g.engines[i])
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
func (g *kindGroup) clearIndexes() {
	for _, kind := range g.kinds {
		kind.ClearIndexes()
	}
}

// setIndexesSynced records whether all indexes of the group have seen the whole first list.
func (g *kindGroup) setIndexesSynced(synced bool) {
	for _, kind := range g.kinds {
		kind.SetIndexesSynced(synced)
	}
}
