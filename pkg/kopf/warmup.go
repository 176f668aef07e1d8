package kopf

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/watchcheck"
)

// Warmup fills the caches of a replica that waits for leadership, if EnableWarmup of the manager's controller options is true. The manager calls Warmup.
// Without EnableWarmup, or without leader election for controllers, it does nothing.
//
// Warmup calls no handlers and writes nothing. It only starts the watches of the kinds and their related kinds, so that the replica needs as much memory for
// its caches as the leader. [Operator.Readyz] fails until the caches have synced. Kinds of [WhenServed] and [ForKinds], and kinds of operators with
// [WithNamespaces], [WithNamespaceFunc] or [WithWatchSelector], have caches of their own, which only the leader fills. With [WithSharding], there is no
// leader, and Warmup does nothing.
//
// A replica that becomes the leader compares its caches with the API server, with one list of metadata for each kind.
func (o *Operator) Warmup(ctx context.Context) error {
	if !o.warmsUp() {
		return nil
	}
	all, err := o.warmKinds()
	if err != nil {
		return err
	}
	kinds, resources, _ := o.watchedKinds(all)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	for i, kind := range kinds {
		group.Go(func() { o.fillCache(ctx, kind.GVK.Kind, kind.New()) })
		for _, c := range resources[i].relatedKinds() {
			group.Go(func() { o.fillCache(ctx, c.gvk.Kind, c.watched()) })
		}
	}
	go func() { // Start fills the caches of a leader
		select {
		case <-o.mgr.Elected():
			cancel()
		case <-ctx.Done():
		}
	}()
	group.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.warmedUp = true
	return nil
}

var errNotWarm = errors.New("the replica waits for leadership: its caches have not synced yet")

const (
	warmupRetryInterval = 10 * time.Second
	warmupPoll          = 100 * time.Millisecond
)

// warmsUp reports whether Warmup fills the caches before the operator starts.
func (o *Operator) warmsUp() bool {
	if o.mgr == nil || o.hasOwnCache() || !o.NeedLeaderElection() {
		return false
	}
	enabled := o.mgr.GetControllerOptions().EnableWarmup
	return enabled != nil && *enabled
}

// fillCache starts the watch of a kind, and waits until its cache has synced or the context ends.
func (o *Operator) fillCache(ctx context.Context, kind string, obj client.Object) {
	for {
		informer, err := o.mgr.GetCache().GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		wait := warmupRetryInterval
		switch {
		case err == nil && informer.HasSynced():
			return
		case err == nil:
			wait = warmupPoll
		case ctx.Err() == nil:
			o.mgr.GetLogger().Info("Failed to fill a cache while the replica waits for leadership; retrying", "kind", kind, "error", err.Error())
			o.setWarmupErr(fmt.Errorf("%w: %s: %w", errNotWarm, kind, err))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

func (o *Operator) setWarmupErr(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.warmupErr = err
}

// A verification compares the cache of one kind with the API server.
type verification struct {
	delivered chan struct{} // closed when the engine has observed all objects of the cache
	ended     chan struct{}
}

// expectWarmCaches makes the group verify its caches, which were filled before the operator started.
func (g *kindGroup) expectWarmCaches() {
	g.warm = map[*engine.Engine]*verification{}
	for _, e := range g.engines {
		g.warm[e] = &verification{delivered: make(chan struct{}), ended: make(chan struct{})}
	}
}

// observed records that the engine has observed all objects of the cache. If wait is true, it waits for the end of the verification.
func (v *verification) observed(ctx context.Context, wait bool) {
	if v == nil {
		return
	}
	close(v.delivered)
	if wait {
		select {
		case <-v.ended:
		case <-ctx.Done():
		}
	}
}

// verifyCache verifies that the cache of a kind is not older than the start of the operator. Until then, the engine reads objects with due work from the API
// server.
func (g *kindGroup) verifyCache(ctx context.Context, e *engine.Engine, v *verification) {
	defer close(v.ended)
	informer, err := g.cache.GetInformer(ctx, e.New(), cache.BlockUntilSynced(false))
	if err != nil {
		return // the cache is stopping
	}
	namespaces := watchcheck.Namespaces(informer)
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	if err := e.VerifyCache(ctx, v.delivered, namespaces...); err != nil && ctx.Err() == nil {
		g.operator.mgr.GetLogger().Info("Cannot verify the cache of the kind; objects with something to do are read from the API server, once each",
			"kind", e.GVK.Kind, "error", err.Error())
	}
}
