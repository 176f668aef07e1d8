package kinds

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
)

// A Unit handles the objects of one kind, with an engine, a controller, and checks of its watches.
type Unit struct {
	*Group
	kind         Kind
	related      []Related // the related kinds whose watches this unit checks
	engine       *engine.Engine
	controller   controller.Controller
	sources      cache.Cache // the cache for the controller's sources: see handlersEndWith
	stopSources  func()
	epoch        operator.Epoch
	checkWatches func(context.Context)
	eventWatches []*eventWatches
	decoded      []decodedKind
	observed     chan struct{} // closed when the engine has observed the listed objects
	unsynced     atomic.Int32  // how many sources haven't synced
	verified     *verification // of a cache that Warmup has filled; nil without Warmup
}

// newUnit returns a unit with an engine and a controller. It doesn't start them.
func (g *Group) newUnit(ctx context.Context, kind Kind) (*Unit, error) {
	r := g.runtime
	kind.CallsUserCode = callsUserCode(&r.Settings, &kind.Kind)
	settings := g.settings
	settings.Selector, settings.Selects, settings.Shard = r.selectorOf(&kind.Kind), r.selects(&kind.Kind), r.Ring.ShardOf(&kind.Kind)
	if r.Warmth.of(kind.Name) == nil {
		kind.ClearIndexes()
	}
	u := &Unit{
		Group: g, kind: kind, related: g.claim(&kind), engine: engine.New(settings, kind.Kind), observed: make(chan struct{}),
		epoch: operator.Epoch{Reader: r.Manager.GetAPIReader(), Log: r.Manager.GetLogger(), Cache: g.cache, EachNamespace: r.Namespaces != nil},
	}
	u.unsynced.Store(2) // the objects and the indexes
	u.sources, u.stopSources = handlersEndWith(r.Manager, g.cache)
	if g.isWarm {
		u.verified = newVerification()
	}
	u.epoch.Set(ctx, u.engine)
	var err error
	if u.controller, err = u.newController(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", kind.GVK.Kind, err)
	}
	u.decoded = u.decodedKinds()
	if u.checkWatches, err = u.watchCheckers(); err != nil {
		return nil, err
	}
	u.eventWatches, err = u.prepareEventWatches()
	return u, err
}

// Engine returns the unit's engine.
func (u *Unit) Engine() *engine.Engine { return u.engine }

// Run runs the controller until it fails or the context is cancelled.
func (u *Unit) Run(ctx context.Context) error {
	defer u.stopSources()
	defer u.kind.SetIndexesSynced(false)
	defer u.runtime.Watches.events.Add(u.eventWatches...)()
	defer u.runtime.Watches.undecodable.addKinds(u)()
	defer func() {
		u.engine.Close()
		u.runtime.Ring.AddEnded(u.engine)
	}()
	group, ctx := errgroup.WithContext(ctx)
	inBackground := func(run func(context.Context)) {
		group.Go(func() error { run(ctx); return nil })
	}
	inBackground(u.checkWatches)
	inBackground(u.runEventWatches)
	inBackground(u.explainUnsynced)
	inBackground(u.reportLeftFinalizers)
	if u.verified != nil {
		inBackground(u.verifyCache)
	}
	group.Go(func() error { return u.engine.Background(ctx) })
	group.Go(func() error {
		if err := u.controller.Start(ctx); err != nil {
			return u.explainStartError(fmt.Errorf("%s: %w", u.kind.GVK.Kind, err))
		}
		return nil
	})
	return group.Wait()
}

// reportLeftFinalizers waits until the engine has observed all objects. It then reports finalizers that the operator has left on objects it
// no longer handles.
func (u *Unit) reportLeftFinalizers(ctx context.Context) {
	select {
	case <-u.observed:
		u.engine.ReportLeftFinalizers()
	case <-ctx.Done():
	}
}

// synced records that a source has synced. After the last one, the unit serves its kind.
func (u *Unit) synced() {
	if u.unsynced.Add(-1) != 0 {
		return
	}
	u.runtime.Units.Set(u.kind.GVK, operator.Serving)
	if u.runtime.Settings.LeanCaches && u.engine.ObjectCount() >= manyObjects && !u.runtime.IsStarting() {
		go debug.FreeOSMemory() // the first list has needed much more memory than its objects
	}
}

// manyObjects is the number of objects for which returning memory to the operating system is worth a garbage collection.
const manyObjects = 1000
