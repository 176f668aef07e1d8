package kopf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// recorderName is the source of the Events that are posted about objects.
const recorderName = "kopf-runtime"

// Start validates the operator, asks the API server for its kinds, and handles their objects until
// the context ends. The manager calls it.
func (o *Operator) Start(ctx context.Context) error {
	kinds, err := o.engineKinds()
	if err != nil {
		return err
	}
	o.setStarting()
	defer o.setEngines(nil)
	if err := o.runActivities(ctx, "startup", o.startup); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it has begun
		}
		return fmt.Errorf("the operator cannot start:\n%w", err)
	}
	watched, resources := o.watchedKinds(kinds)
	err = o.runControllers(ctx, watched, resources)
	cleaned := o.runActivities(context.WithoutCancel(ctx), "cleanup", o.cleanup)
	return errors.Join(err, cleaned)
}

// watched are the kinds that have more than admission handlers, with their resources.
func (o *Operator) watchedKinds(all []engine.Kind) (kinds []engine.Kind, resources []resource) {
	for i, r := range o.resources {
		if !r.hasOnlyAdmission() {
			kinds, resources = append(kinds, all[i]), append(resources, r)
		}
	}
	return kinds, resources
}

// handle runs a controller for each kind.
func (o *Operator) runControllers(ctx context.Context, kinds []engine.Kind, resources []resource) error {
	scopes, err := o.discover(ctx, kinds, resources)
	if err != nil {
		return err
	}
	release, err := o.reserveKinds(kinds)
	if err != nil {
		return err
	}
	defer release()
	settings := o.settings
	settings.Client, settings.Cache, settings.Live = o.mgr.GetClient(), o.mgr.GetCache(), o.mgr.GetAPIReader()
	recorder, err := o.newRecorder(&settings)
	if err != nil {
		return err
	}
	peers, leave, err := o.startPeering()
	if err != nil {
		return err
	}
	defer leave()
	if peers != nil {
		settings.Pause = peers
	}
	settings.Log = o.mgr.GetLogger().WithValues("operator", operatorIdentity(peers))
	if settings.Fence = o.newFence(ctx, peers, settings.Log); settings.Fence != nil {
		settings.Pause = settings.Fence
	}

	testhook.Begins(ctx, len(kinds))
	gate := newGate(kinds)
	engines := make([]*engine.Engine, len(kinds))
	controllers := make([]controller.Controller, len(kinds))
	for i, kind := range kinds {
		engines[i] = engine.New(settings, kind)
		o.setEpoch(ctx, engines[i])
		if controllers[i], err = o.newController(ctx, engines[i], resources[i], scopes[i], gate); err != nil {
			return fmt.Errorf("%s: %w", kind.GVK.Kind, err)
		}
	}
	checkWatches, err := o.watchCheckers(engines, resources)
	if err != nil {
		return err
	}
	o.setEngines(engines)
	defer o.setEngines(nil) // what is cleaned up after that is no work that could be stuck
	defer o.startFence(ctx, settings.Fence, engines)()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { checkWatches(ctx); return nil })
	if peers != nil {
		defer forwardPauses(peers, o.peers.Namespaces, engines)()
		group.Go(func() error { return peers.Start(ctx) })
	}
	if recorder != nil {
		defer runRecorder(ctx, recorder)()
	}
	group.Go(func() error {
		<-ctx.Done() // there may be no other reason to stay
		return nil
	})
	for i, c := range controllers {
		defer engines[i].Close()
		group.Go(func() error { return engines[i].Background(ctx) })
		group.Go(func() error {
			if err := c.Start(ctx); err != nil {
				return fmt.Errorf("%s: %w", kinds[i].GVK.Kind, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// begins takes note that the operator is on its way to run something.
func (o *Operator) setStarting() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started, o.unsynced = true, 1
}

// starts takes note of what is running; nil: nothing is any more.
func (o *Operator) setEngines(engines []*engine.Engine) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.engines, o.started, o.unsynced = engines, len(engines) > 0, 2*len(engines)
}

// synced takes note that a cache, or the indexes for a kind, are complete.
func (o *Operator) markSynced() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unsynced--
}

// discover learns from the API server how it serves the kinds, whether in namespaces, say, and tells which
// it does not.
func (o *Operator) discover(ctx context.Context, kinds []engine.Kind, resources []resource) (namespaced []bool, err error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(o.mgr.GetConfig(), o.mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("discovering the served kinds: %w", err)
	}
	var errs []error
	for i := range kinds {
		verbs, hasStatus, inNamespaces, err := discoverKind(client, kinds[i].GVK)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: asking whether the API server serves it: %w", kinds[i].GVK.Kind, err))
		case verbs == nil:
			errs = append(errs, fmt.Errorf("%s: %w", kinds[i].GVK.Kind, errNotServed(client, kinds[i].GVK)))
		}
		if verbs != nil {
			errs = append(errs, checkVerbs(&kinds[i], verbs), o.checkSchema(ctx, client, &kinds[i]))
			if declarations := resources[i].handlersWithUncheckedFields(); len(declarations) > 0 {
				go o.warnAboutFields(ctx, client, kinds[i].GVK, declarations)
			}
		}
		for _, c := range resources[i].ownedKinds() {
			errs = append(errs, checkOwned(client, &kinds[i], c))
		}
		kinds[i].HasStatus = hasStatus
		namespaced = append(namespaced, inNamespaces)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("the operator cannot start:\n%w", err)
	}
	return namespaced, nil
}

// controller builds the controller of one kind; it is not started yet.
func (o *Operator) newController(ctx context.Context, e *engine.Engine, r resource, namespaced bool, g *gate) (controller.Controller, error) {
	opts := r.options()
	options := opts.controller
	options.Reconciler = testhook.Around(ctx, e, e)
	for _, wrap := range o.wrappers {
		options.Reconciler = wrap(options.Reconciler)
	}
	if opts.concurrency > 0 {
		options.MaxConcurrentReconciles = opts.concurrency
	}
	options.DefaultFromConfig(o.mgr.GetControllerOptions())
	if options.MaxConcurrentReconciles <= 0 {
		options.MaxConcurrentReconciles = defaultConcurrency
	}
	if options.RateLimiter == nil {
		options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstBackoff, lastBackoff)
	}
	if options.SkipNameValidation == nil {
		// Operators come and go within a process (in tests, with each leadership): a name is not used up.
		options.SkipNameValidation = new(true)
	}
	if options.LogConstructor == nil {
		options.LogConstructor = newLogConstructor(e)
	}
	c, err := controller.NewTypedUnmanaged(e.Name, options)
	if err != nil {
		return nil, err
	}
	watched := g.notify(e.Name, source.Kind(o.mgr.GetCache(), e.New(), e.EventHandler(opts.predicates...)), func(ctx context.Context) {
		if len(e.Indexes.IDs()) > 0 {
			o.awaitEpoch(ctx, e)
		}
		o.markSynced()
	})
	sources := []source.Source{watched, &gateSource{g, o.markSynced}, e.Promoter(options.MaxConcurrentReconciles), e.Waker()}
	for _, c := range r.ownedKinds() {
		sources = append(sources, source.Kind(o.mgr.GetCache(), c.obj, e.Relatives(ownerKeys(&e.Kind, namespaced), c.predicates...)))
	}
	for _, src := range sources {
		if err := c.Watch(src); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Faults of the API are retried with these pauses, for each object by itself.
const (
	firstBackoff = 10 * time.Millisecond
	lastBackoff  = 2 * time.Minute
)

// identity is what the operator is called in the log: as its peers know it, or by its host, which is its pod.
func operatorIdentity(peers *peering.Peering) string {
	if peers != nil {
		return peers.Identity()
	}
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

func newLogConstructor(e *engine.Engine) func(*reconcile.Request) logr.Logger {
	base := e.Log.WithValues("controller", e.Name, "kind", e.GVK.Kind)
	return func(req *reconcile.Request) logr.Logger {
		if req == nil {
			return base
		}
		return base.WithValues("namespace", req.Namespace, "name", req.Name)
	}
}
