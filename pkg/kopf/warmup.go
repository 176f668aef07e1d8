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
// Warmup calls no handlers and writes nothing. It only starts the watches of the kinds and their related kinds. The replica then needs as much memory for
// its caches as the leader. [Operator.Readyz] fails until the caches have synced. Kinds of [WhenServed] and [ForKinds] have caches of their own, which only
// the leader fills. With [WithNamespaces], [WithNamespaceFunc], [WithWatchSelector] or [WithSharding], Warmup does nothing.
//
// A replica that becomes the leader compares its caches with the API server. For this, it lists the metadata of the objects once for each kind, or once for
// each namespace to which the cache of the manager is restricted.
func (o *Operator) Warmup(ctx context.Context) error {
	if !o.warmsUp() {
		return nil
	}
	all, err := o.resolved()
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
	go func() { // when the replica becomes the leader, Start fills the caches
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

// fillCache starts the watch of a kind, and waits until the cache of the kind has synced or the context ends.
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

// expectWarmCaches makes the group verify its caches when it runs, because Warmup has filled them before the operator started.
func (g *kindGroup) expectWarmCaches() {
	g.warm = map[*engine.Engine]*verification{}
	for _, e := range g.engines {
		g.warm[e] = &verification{delivered: make(chan struct{}), ended: make(chan struct{})}
	}
}

// observed records that the engine has observed all objects of the cache. If wait is true, it waits for the end of the verification or of the context, so that
// the engine need not read each object from the API server.
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

// verifyCache verifies that the cache of a kind is not older than the start of the operator. Until the verification has succeeded, the engine reads each object
// with due work once from the API server.
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
		g.operator.mgr.GetLogger().Info("Failed to verify the cache of the kind; each object with due work is read once from the API server",
			"kind", e.GVK.Kind, "error", err.Error())
	}
}
