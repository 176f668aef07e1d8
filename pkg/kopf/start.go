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

// recorderName is the reporting controller of the Events.
const recorderName = "kopf-runtime"

// Start checks the declaration, discovers the kinds in the API server, and handles their objects until the context is cancelled. It returns an
// error if the declaration is invalid, if the API server does not serve a kind, or if a function of [OnStartup] or [OnCleanup] fails. The
// manager calls it.
func (o *Operator) Start(ctx context.Context) error {
	kinds, err := o.engineKinds()
	if err != nil {
		return err
	}
	o.setStarting()
	defer o.setEngines(nil)
	if err := o.runActivities(ctx, "startup", o.startup); err != nil {
		if ctx.Err() != nil {
			return nil // the operator was stopped during its startup
		}
		return fmt.Errorf("the operator cannot start:\n%w", err)
	}
	watched, resources := o.watchedKinds(kinds)
	err = o.runControllers(ctx, watched, resources)
	cleanupErr := o.runActivities(context.WithoutCancel(ctx), "cleanup", o.cleanup)
	return errors.Join(err, cleanupErr)
}

// watchedKinds returns the kinds whose objects the operator watches, with their resources. It omits kinds that have only admission handlers.
func (o *Operator) watchedKinds(all []engine.Kind) (kinds []engine.Kind, resources []resource) {
	for i, r := range o.resources {
		if !r.hasOnlyAdmission() {
			kinds, resources = append(kinds, all[i]), append(resources, r)
		}
	}
	return kinds, resources
}

// runControllers runs a controller for each kind until the context is cancelled.
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
	settings.Client, settings.Cache, settings.APIReader, settings.Informers = o.mgr.GetClient(), o.mgr.GetCache(), o.mgr.GetAPIReader(), o.mgr.GetCache()
	recorder, err := o.newRecorder(&settings)
	if err != nil {
		return err
	}
	peers, releasePeering, err := o.startPeering()
	if err != nil {
		return err
	}
	defer releasePeering()
	if peers != nil {
		settings.Pause = peers
	}
	settings.Log = o.mgr.GetLogger().WithValues("operator", operatorIdentity(peers))
	if settings.Fence = o.newFence(ctx, peers, settings.Log); settings.Fence != nil {
		settings.Pause = settings.Fence
	}

	testhook.OperatorStarting(ctx, len(kinds))
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
	defer o.setEngines(nil) // the liveness check ignores the cleanup
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
		<-ctx.Done() // an operator without controllers runs until this wait ends
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

// setStarting marks the operator as starting until setEngines is called.
func (o *Operator) setStarting() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started, o.unsynced = true, 1
}

// setEngines sets the running engines for the health checks. Nil means that the operator has stopped.
func (o *Operator) setEngines(engines []*engine.Engine) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.engines, o.started, o.unsynced = engines, len(engines) > 0, 2*len(engines)
}

// markSynced records that a source has synced.
func (o *Operator) markSynced() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unsynced--
}

// discover looks up the kinds in the API server and returns whether they are namespaced. It returns an error for kinds that are not served or
// that lack required verbs or fields.
func (o *Operator) discover(ctx context.Context, kinds []engine.Kind, resources []resource) (namespaced []bool, err error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(o.mgr.GetConfig(), o.mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("discovering the served kinds: %w", err)
	}
	var errs []error
	for i := range kinds {
		verbs, hasStatus, isNamespaced, err := discoverKind(client, kinds[i].GVK)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: discovering the kind: %w", kinds[i].GVK.Kind, err))
		case verbs == nil:
			errs = append(errs, fmt.Errorf("%s: %w", kinds[i].GVK.Kind, errNotServed(client, kinds[i].GVK)))
		}
		if verbs != nil {
			errs = append(errs, checkVerbs(&kinds[i], verbs), o.checkSchema(ctx, client, &kinds[i]))
			if declarations := resources[i].handlersWithUncheckedFields(); len(declarations) > 0 {
				go o.warnAboutFields(ctx, client, kinds[i].GVK, declarations)
			}
		}
		for _, c := range resources[i].relatedKinds() {
			errs = append(errs, c.checkServed(client, &kinds[i], isNamespaced))
		}
		kinds[i].HasStatus = hasStatus
		namespaced = append(namespaced, isNamespaced)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("the operator cannot start:\n%w", err)
	}
	return namespaced, nil
}

// newController returns the controller of one kind, with its watches. It does not start the controller.
func (o *Operator) newController(ctx context.Context, e *engine.Engine, r resource, namespaced bool, g *gate) (controller.Controller, error) {
	opts := r.options()
	options := opts.controller
	options.Reconciler = testhook.WrapReconciler(ctx, e, e)
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
		// A process can run several operators one after the other, for example in tests or with each leadership.
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
	sources := []source.Source{watched, &gateSource{g, o.markSynced}, e.Promoter(options.MaxConcurrentReconciles), e.BackgroundSource()}
	for _, c := range r.relatedKinds() {
		sources = append(sources, c.source(o, e, namespaced))
	}
	for _, src := range r.triggerSources() {
		sources = append(sources, e.Triggered(src))
	}
	for _, src := range sources {
		if err := c.Watch(src); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// These constants limit the default backoff for each object after errors of the API server.
const (
	firstBackoff = 10 * time.Millisecond
	lastBackoff  = 2 * time.Minute
)

// operatorIdentity returns the name of the operator in the log: its identity as a peer, or else the host name. In a pod, the host name is the
// name of the pod.
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

// newLogConstructor returns the default LogConstructor of a controller.
func newLogConstructor(e *engine.Engine) func(*reconcile.Request) logr.Logger {
	base := e.Log.WithValues("controller", e.Name, "kind", e.GVK.Kind)
	return func(req *reconcile.Request) logr.Logger {
		if req == nil {
			return base
		}
		return base.WithValues("namespace", req.Namespace, "name", req.Name)
	}
}
