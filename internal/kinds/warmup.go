package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/watchcheck"
)

// Warm fills the caches and the indexes of fixed kinds in a replica that waits for leadership, until the replica becomes the leader.
func (r *Runtime) Warm(ctx context.Context, kinds []Kind) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	for _, kind := range kinds {
		warmer := r.newIndexWarmer(context.WithoutCancel(ctx), &kind.Kind)
		group.Go(func() {
			if r.fillCache(ctx, kind.GVK.Kind, kind.New(), warmer) {
				kind.SetIndexesSynced(true)
			}
		})
		for _, c := range kind.Related {
			group.Go(func() { r.fillCache(ctx, c.GVK.Kind, c.watched(), nil) })
		}
	}
	go func() { // when the replica becomes the leader, Start fills the caches
		select {
		case <-r.Manager.Elected():
			cancel()
		case <-ctx.Done():
		}
	}()
	group.Wait()
	r.Warmth.Done()
}

var errNotWarm = errors.New("the replica waits for leadership: its caches have not synced yet")

const (
	warmupRetryInterval = 10 * time.Second
	warmupPoll          = 100 * time.Millisecond
)

// fillCache starts the watch of a kind, and waits until the cache and the indexes of the kind have synced. It returns false if the context ends first.
func (r *Runtime) fillCache(ctx context.Context, kind string, obj client.Object, warmer *indexWarmer) bool {
	for {
		informer, err := r.Manager.GetCache().GetInformer(ctx, obj, cache.BlockUntilSynced(false))
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
			r.Manager.GetLogger().Info("Failed to fill a cache while the replica waits for leadership; retrying", "kind", kind, "error", err.Error())
			r.Warmth.setErr(fmt.Errorf("%w: %s: %w", errNotWarm, kind, err))
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
func (r *Runtime) newIndexWarmer(ctx context.Context, kind *engine.Kind) *indexWarmer {
	if len(kind.Indexes.IDs()) == 0 {
		return nil
	}
	kind.ClearIndexes()
	settings := r.Settings
	settings.Client, settings.APIReader = r.Client(), r.Manager.GetAPIReader()
	settings.Recorder, settings.LogEvents = nil, false
	settings.Log = r.Manager.GetLogger().WithValues("operator", operator.Identity(nil))
	indexer := engine.New(settings, engine.Kind{
		Name: kind.Name, GVK: kind.GVK, New: kind.New, Indexes: kind.Indexes, ConditionOptions: kind.ConditionOptions, HasStatus: kind.HasStatus,
	})
	w := &indexWarmer{events: indexer.IndexEvents(ctx)}
	r.Warmth.add(kind.Name, w)
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

// Warmth is what Warmup has done.
type Warmth struct {
	mu      sync.Mutex
	isDone  bool                    // Warmup has filled the caches, or Start was called
	err     error                   // the last error
	warmers map[string]*indexWarmer // by the name of the kind; nil without Warmup
}

// Done records that Warmup has filled the caches, or that the operator starts.
func (w *Warmth) Done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isDone = true
}

func (w *Warmth) setErr(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// NotReady returns the reason why a replica that waits for leadership is not ready.
func (w *Warmth) NotReady() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isDone {
		return nil
	}
	return cmp.Or(w.err, errNotWarm)
}

func (w *Warmth) add(kind string, warmer *indexWarmer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.warmers == nil {
		w.warmers = map[string]*indexWarmer{}
	}
	w.warmers[kind] = warmer
}

// of returns the warmer for the indexes of a kind; nil if there is none.
func (w *Warmth) of(kind string) *indexWarmer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.warmers[kind]
}

// A verification compares the cache of one kind with the API server.
type verification struct {
	delivered chan struct{} // closed when the engine has observed all objects of the cache
	ended     chan struct{}
}

// ExpectWarmCaches makes the group verify its caches when it runs, because Warmup has filled them before the operator started.
func (g *Group) ExpectWarmCaches() {
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
func (g *Group) verifyCache(ctx context.Context, e *engine.Engine, v *verification) {
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
		g.runtime.Manager.GetLogger().Info("Failed to verify the cache of the kind; each object with due work is read once from the API server",
			"kind", e.GVK.Kind, "error", err.Error())
	}
}
