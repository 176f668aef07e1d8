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
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watchcheck"
)

// Warm fills the caches and indexes in a replica that waits for leadership, until the replica becomes the leader. dynamic holds the kinds
// that come and go; it may be nil.
//
// The leader goes on with the fixed kinds' cache. If the operator has changing namespaces, it fills a new one instead, because it must know
// for each namespace from which version on the cache contains the former leader's writes. The indexes keep their values.
func (r *Runtime) Warm(ctx context.Context, fixed []Kind, dynamic *Dynamic) {
	if !r.Warmth.begin() {
		return
	}
	defer r.Warmth.end()
	process := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // when the replica becomes the leader, Start fills the caches
		select {
		case <-r.Manager.Elected():
			cancel()
		case <-ctx.Done():
		}
	}()
	var running, filling sync.WaitGroup
	defer running.Wait()
	objects, stop, err := r.warmCache(ctx, fixed)
	if err != nil {
		return // the replica becomes the leader, or stops
	}
	defer func() {
		select {
		case <-r.Manager.Elected():
			if r.Namespaces == nil {
				r.Warmth.keep(process, objects, stop)
				return
			}
		default:
		}
		stop()
	}()
	if r.Namespaces != nil {
		defer r.Namespaces.Reset()
		defer running.Wait()
		running.Go(func() {
			if err := r.Namespaces.Run(ctx, r.Manager.GetLogger(), func() {}, r.OwnCacheOptions); err != nil {
				r.Warmth.setErr(fmt.Errorf("%w: %w", errNotWarm, err))
			}
		})
	}
	if dynamic != nil {
		dynamic.warms = true
		running.Go(func() { _ = dynamic.Run(ctx, nil) }) // it never fails
	}
	for _, kind := range fixed {
		r.fill(ctx, &filling, &kind, objects)
	}
	if filling.Wait(); ctx.Err() == nil {
		r.Warmth.Done()
	}
	<-ctx.Done()
}

// warmCache starts the fixed kinds' cache. It retries until the context is cancelled.
func (r *Runtime) warmCache(ctx context.Context, fixed []Kind) (objects cache.Cache, stop func(), err error) {
	for {
		if objects, stop, err = r.StartCache(ctx, fixed); err == nil {
			return objects, stop, nil
		}
		r.cannotWarm(ctx, "the operator", err)
		select {
		case <-time.After(warmupRetryInterval):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// fill fills the caches and indexes of a kind and its related kinds.
func (r *Runtime) fill(ctx context.Context, filling *sync.WaitGroup, kind *Kind, objects cache.Cache) {
	warmer := r.newIndexWarmer(context.WithoutCancel(ctx), &kind.Kind)
	filling.Go(func() {
		if r.fillCache(ctx, objects, kind.GVK.Kind, kind.New(), warmer) {
			kind.SetIndexesSynced(true)
		}
	})
	for _, c := range kind.Related {
		filling.Go(func() { r.fillCache(ctx, objects, c.GVK.Kind, c.watched(), nil) })
	}
}

// warm fills the caches and indexes of a kind with its own cache, and keeps them up to date until the context is cancelled.
func (r *Runtime) warm(ctx context.Context, kind *Kind, objects cache.Cache) {
	defer kind.SetIndexesSynced(false)
	defer r.Warmth.remove(kind.Name)
	var filling sync.WaitGroup
	r.fill(ctx, &filling, kind, objects)
	filling.Wait()
	r.Units.Set(kind.GVK, operator.Serving)
	<-ctx.Done()
}

func (r *Runtime) cannotWarm(ctx context.Context, kind string, err error) {
	if ctx.Err() == nil {
		r.Manager.GetLogger().Info("Failed to fill a cache while the replica waits for leadership; retrying", "kind", kind, "error", err.Error())
		r.Warmth.setErr(fmt.Errorf("%w: %s: %w", errNotWarm, kind, err))
	}
}

var errNotWarm = errors.New("the replica waits for leadership: its caches have not synced yet")

const (
	warmupRetryInterval = 10 * time.Second
	warmupPoll          = 100 * time.Millisecond
)

// fillCache starts a kind's watch, and waits until the kind's cache and indexes have synced. It returns false if the context is cancelled
// first.
func (r *Runtime) fillCache(ctx context.Context, objects cache.Cache, kind string, obj client.Object, warmer *indexWarmer) bool {
	for {
		informer, err := objects.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err == nil {
			err = warmer.follow(informer)
		}
		wait := warmupPoll
		switch {
		case err != nil:
			r.cannotWarm(ctx, kind, err)
			wait = warmupRetryInterval
		case r.hasEntered() && informer.HasSynced() && warmer.hasSynced():
			return true
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
}

// hasEntered reports whether the caches contain the first namespaces.
func (r *Runtime) hasEntered() bool { return r.Namespaces == nil || r.Namespaces.Entered().IsOpen() }

// An indexWarmer updates a kind's indexes until the operator starts. A nil indexWarmer does nothing.
type indexWarmer struct {
	events toolscache.ResourceEventHandler

	mu           sync.Mutex // held for each event, so that none is handled after the end
	informer     cache.Informer
	registration toolscache.ResourceEventHandlerRegistration
	ended        bool
}

// newIndexWarmer returns a warmer for a kind's indexes, or nil if it has none. The index functions run as in the leader, but their Events
// aren't posted.
func (r *Runtime) newIndexWarmer(ctx context.Context, kind *engine.Kind) *indexWarmer {
	if len(kind.Indexes.IDs()) == 0 {
		return nil
	}
	kind.ClearIndexes()
	settings := r.Settings
	settings.Client, settings.APIReader = r.Client(), r.Manager.GetAPIReader()
	settings.Recorder, settings.LogEvents = nil, false
	settings.Log = r.Manager.GetLogger().WithValues("operator", operator.Identity(nil))
	complete := *kind // for the form of the objects in the cache
	complete.CallsUserCode = callsUserCode(&r.Settings, kind)
	indexer := engine.New(settings, complete)
	w := &indexWarmer{events: indexer.IndexEvents(ctx)}
	r.Warmth.add(kind.Name, w)
	return w
}

// follow registers the warmer with the kind's informer, unless it is registered already or has ended.
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

// end must be called before the kind's engine starts to update the indexes.
func (w *indexWarmer) end() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	if w.registration != nil { // it doesn't change any more
		_ = w.informer.RemoveEventHandler(w.registration) // this fails only if the informer has stopped
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
	mu        sync.Mutex
	running   chan struct{}           // closed when Warmup has ended; nil before it runs
	isStarted bool                    // Start was called
	isDone    bool                    // Warmup has filled the caches, or Start was called
	err       error                   // the last error
	warmers   map[string]*indexWarmer // by the kind's name; nil without Warmup
	objects   cache.Cache             // the operator's filled cache; nil if it has none
	stop      func()                  // stops the cache
}

// begin records that Warmup runs. It returns false if the operator has already started.
func (w *Warmth) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isStarted {
		return false
	}
	w.running = make(chan struct{})
	return true
}

func (w *Warmth) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.running)
}

// Finish waits until Warmup has ended, because the operator is starting.
func (w *Warmth) Finish() {
	w.mu.Lock()
	w.isStarted = true
	running := w.running
	w.mu.Unlock()
	if running != nil {
		<-running
	}
	w.Done()
}

// keep keeps a filled cache for Start. If the operator doesn't start, the cache stops with the process's context.
func (w *Warmth) keep(process context.Context, objects cache.Cache, stop func()) {
	w.mu.Lock()
	w.objects, w.stop = objects, stop
	w.mu.Unlock()
	context.AfterFunc(process, func() {
		if _, stop := w.take(); stop != nil {
			stop()
		}
	})
}

// take returns the operator's filled cache, but only once; later calls return nil.
func (w *Warmth) take() (objects cache.Cache, stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	objects, stop = w.objects, w.stop
	w.objects, w.stop = nil, nil
	return objects, stop
}

// Done records that the caches are filled, or that the operator is starting.
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

// NotReady says why a replica that waits for leadership is not ready.
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

func (w *Warmth) remove(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.warmers, kind)
}

// of returns the warmer for a kind's indexes, or nil.
func (w *Warmth) of(kind string) *indexWarmer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.warmers[kind]
}

// A verification compares one kind's cache with the API server.
type verification struct {
	delivered chan struct{} // closed when the engine has observed all objects in the cache
	ended     chan struct{}
}

func newVerification() *verification {
	return &verification{delivered: make(chan struct{}), ended: make(chan struct{})}
}

// observed records that the engine has observed all objects in the cache. If wait is true, it waits until the verification is over or the
// context is cancelled, so that the engine needn't read each object from the API server.
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

// verifyCache verifies that the kind's cache isn't older than the operator's start. Until this has succeeded, the engine reads each object
// with due work once from the API server.
func (u *Unit) verifyCache(ctx context.Context) {
	defer close(u.verified.ended)
	informer, err := u.cache.GetInformer(ctx, u.engine.New(), cache.BlockUntilSynced(false))
	if err != nil {
		return // the cache is stopping
	}
	namespaces := watchcheck.Namespaces(informer)
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	if err := u.engine.VerifyCache(ctx, u.verified.delivered, namespaces...); err != nil && ctx.Err() == nil {
		u.runtime.Manager.GetLogger().Info("Failed to verify the cache of the kind; each object with due work is read once from the API server",
			"kind", u.kind.GVK.Kind, "error", err.Error())
	}
}
