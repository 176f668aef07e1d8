package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/watchcheck"
)

// Warmup fills the caches and the indexes of a replica that waits for leadership, if EnableWarmup of the manager's controller options is true. The manager
// calls Warmup. Without EnableWarmup, or without leader election for controllers, it does nothing.
//
// Warmup writes nothing. It starts the watches of the kinds and their related kinds, and calls the functions of [IndexBy], even before the functions of
// [OnStartup]. It calls no other handlers. The replica then needs as much memory for its caches as the leader. [Operator.Readyz] fails until the caches and the
// indexes have synced. Kinds of [WhenServed] and [ForKinds] have caches of their own, which only
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
		warmer := o.newIndexWarmer(context.WithoutCancel(ctx), &kind)
		group.Go(func() {
			if o.fillCache(ctx, kind.GVK.Kind, kind.New(), warmer) {
				kind.SetIndexesSynced(true)
			}
		})
		for _, c := range resources[i].relatedKinds() {
			group.Go(func() { o.fillCache(ctx, c.gvk.Kind, c.watched(), nil) })
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
	o.fixed.warm.done()
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

// fillCache starts the watch of a kind, and waits until the cache and the indexes of the kind have synced. It returns false if the context ends first.
func (o *Operator) fillCache(ctx context.Context, kind string, obj client.Object, warmer *indexWarmer) bool {
	for {
		informer, err := o.mgr.GetCache().GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err == nil {
			err = warmer.follow(informer)
		}
		wait := warmupRetryInterval
		switch {
		case err == nil && informer.HasSynced() && warmer.hasSynced():
			return true
		case err == nil:
			wait = warmupPoll
		case ctx.Err() == nil:
			o.mgr.GetLogger().Info("Failed to fill a cache while the replica waits for leadership; retrying", "kind", kind, "error", err.Error())
			o.fixed.warm.setErr(fmt.Errorf("%w: %s: %w", errNotWarm, kind, err))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
}

// An indexWarmer updates the indexes of a kind until the operator starts. A nil indexWarmer does nothing.
type indexWarmer struct {
	events toolscache.ResourceEventHandler

	mu           sync.Mutex // held for each event, so that no event is handled after the end
	informer     cache.Informer
	registration toolscache.ResourceEventHandlerRegistration
	ended        bool
}

// newIndexWarmer returns a warmer for the indexes of a kind; nil if the kind has none. The index functions run as in the leader, but their Events are not posted.
func (o *Operator) newIndexWarmer(ctx context.Context, kind *engine.Kind) *indexWarmer {
	if len(kind.Indexes.IDs()) == 0 {
		return nil
	}
	kind.ClearIndexes()
	settings := o.settings
	settings.Client, settings.APIReader = o.client(), o.mgr.GetAPIReader()
	settings.Recorder, settings.LogEvents = nil, false
	settings.Log = o.mgr.GetLogger().WithValues("operator", operatorIdentity(nil))
	indexer := engine.New(settings, engine.Kind{
		Name: kind.Name, GVK: kind.GVK, New: kind.New, Indexes: kind.Indexes, ConditionOptions: kind.ConditionOptions, HasStatus: kind.HasStatus,
	})
	w := &indexWarmer{events: indexer.IndexEvents(ctx)}
	o.fixed.warm.add(kind.Name, w)
	return w
}

// follow registers the warmer with the informer of the kind, unless it is registered or has ended.
func (w *indexWarmer) follow(informer cache.Informer) (err error) {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.registration == nil && !w.ended {
		w.informer = informer
		w.registration, err = informer.AddEventHandler(w)
	}
	return err
}

// hasSynced reports whether the indexes contain the objects of the first list.
func (w *indexWarmer) hasSynced() bool {
	if w == nil {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.registration != nil && w.registration.HasSynced()
}

// end must be called before the engine of the kind starts to update the indexes.
func (w *indexWarmer) end() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	if w.registration != nil { // it does not change any more
		_ = w.informer.RemoveEventHandler(w.registration) // it fails only if the informer has stopped
	}
}

func (w *indexWarmer) handle(event func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		event()
	}
}

// OnAdd implements [toolscache.ResourceEventHandler].
func (w *indexWarmer) OnAdd(obj any, initial bool) { w.handle(func() { w.events.OnAdd(obj, initial) }) }

// OnUpdate implements [toolscache.ResourceEventHandler].
func (w *indexWarmer) OnUpdate(before, obj any) { w.handle(func() { w.events.OnUpdate(before, obj) }) }

// OnDelete implements [toolscache.ResourceEventHandler].
func (w *indexWarmer) OnDelete(obj any) { w.handle(func() { w.events.OnDelete(obj) }) }

// fixedKinds is the state of the kinds that the operator watches from the start.
type fixedKinds struct {
	unsynced atomic.Int64 // number of sources that have not synced yet
	warm     warmth
}

// isStarting reports whether the operator has started, and its sources have not synced yet.
func (k *fixedKinds) isStarting() bool { return k.unsynced.Load() > 0 }

// warmth is what Warmup has done.
type warmth struct {
	mu      sync.Mutex
	isDone  bool                    // Warmup has filled the caches, or Start was called
	err     error                   // the last error
	warmers map[string]*indexWarmer // by the name of the kind; nil without Warmup
}

func (w *warmth) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isDone = true
}

func (w *warmth) setErr(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *warmth) notReady() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isDone {
		return nil
	}
	return cmp.Or(w.err, errNotWarm)
}

func (w *warmth) add(kind string, warmer *indexWarmer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.warmers == nil {
		w.warmers = map[string]*indexWarmer{}
	}
	w.warmers[kind] = warmer
}

// of returns the warmer for the indexes of a kind; nil if there is none.
func (w *warmth) of(kind string) *indexWarmer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.warmers[kind]
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
