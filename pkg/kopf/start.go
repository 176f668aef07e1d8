package kopf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/lazylog"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/internal/watching"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// recorderName is the reporting controller of the Events.
const recorderName = "kopf-runtime"

// Start checks the declaration, discovers the kinds in the API server, and handles their objects until the context is cancelled. It returns an
// error if the declaration is invalid, if the API server does not serve a kind (see [WhenServed]), or if required permissions are missing (see
// [WithRightsCheck]). It also returns an error if a controller or the peering fails, if the Lease of a shard is lost (see [WithSharding]), or if a
// function of [OnStartup] or [OnCleanup] fails permanently. The manager calls Start.
func (o *Operator) Start(ctx context.Context) error {
	engineKinds := o.engineKinds
	if o.warmsUp() {
		engineKinds = o.resolved
	}
	kinds, err := engineKinds()
	if err != nil {
		return err
	}
	if err := o.ring.CheckServed(ctx, kinds); err != nil {
		return err
	}
	o.fixed.unsynced.Store(1)
	o.fixed.warm.done()
	defer o.fixed.unsynced.Store(0)
	if err := o.runActivities(ctx, "startup", o.functions.startup); err != nil {
		if ctx.Err() != nil {
			return nil // the operator was stopped during its startup
		}
		return fmt.Errorf("the operator cannot start:\n%w", err)
	}
	err = o.ring.Run(ctx, func(ctx context.Context) error { return o.runControllers(ctx, kinds) })
	cleanupErr := o.runActivities(context.WithoutCancel(ctx), "cleanup", o.functions.cleanup)
	return errors.Join(err, cleanupErr)
}

// watchedKinds returns the kinds whose objects the operator watches: the kinds that it watches from the start, with their resources, and the kinds of
// [WhenServed]. It omits kinds that have only admission handlers.
func (o *Operator) watchedKinds(all []engine.Kind) (kinds []engine.Kind, resources []resource, whenServed []declaredKind) {
	for i, r := range o.resources {
		switch {
		case r.hasOnlyAdmission():
		case r.options().whenServed:
			whenServed = append(whenServed, declaredKind{all[i], r, o.clients.of(o.mgr, r)})
		default:
			kinds, resources = append(kinds, all[i]), append(resources, r)
		}
	}
	return kinds, resources, whenServed
}

// runControllers runs the parts of the operator until the context is cancelled.
func (o *Operator) runControllers(ctx context.Context, all []engine.Kind) error {
	s := &starting{operator: o, settings: o.settings}
	s.settings.SharesFinalizer = s.settings.Finalizer == DefaultFinalizer
	s.kinds, s.resources, s.whenServed = o.watchedKinds(all)
	return operator.Run(ctx, o.mgr.GetLogger(), o.parts(s))
}

// startCache returns the cache of the fixed kinds: the cache of the manager, or a cache of the operator, which runs until stop is called.
func (o *Operator) startCache(ctx context.Context, kinds []engine.Kind) (objects cache.Cache, stop func(), err error) {
	if !o.hasOwnCache() {
		return o.mgr.GetCache(), func() {}, nil
	}
	options := o.ownCacheOptions(ctx)
	o.selectObjects(&options, kinds...)
	objects, release, err := o.newCache(ctx, options)
	if err != nil {
		return nil, nil, fmt.Errorf("creating the cache of the operator: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := objects.Start(ctx); err != nil {
			o.mgr.GetLogger().Error(err, "The cache of the operator has failed")
		}
	})
	stopReading := o.clients.shared(o.mgr).UseDefault(objects)
	return objects, func() { stopReading(); cancel(); ended.Wait(); release() }, nil
}

// ownCacheOptions returns the options for a cache of the operator.
func (o *Operator) ownCacheOptions(ctx context.Context) cache.Options {
	options := o.kindCaches
	testhook.ChangeCacheOptions(ctx, &options)
	if options.HTTPClient == nil {
		options.HTTPClient = o.mgr.GetHTTPClient()
	}
	if options.Scheme == nil {
		options.Scheme = o.mgr.GetScheme()
	}
	if options.Mapper == nil {
		options.Mapper = o.mgr.GetRESTMapper()
	}
	if options.NewInformer == nil {
		options.NewInformer = watching.NewDrainedInformer
	}
	guardTransforms(&options, o.mgr.GetLogger())
	if options.DefaultTransform == nil {
		options.DefaultTransform = cache.TransformStripManagedFields()
	}
	return options
}

// discover looks up the kinds in the API server, sets HasStatus of each kind, and returns whether each kind is namespaced. It returns an error
// if the API server does not serve a kind or a related kind, or serves it without required verbs or fields.
func (o *Operator) discover(ctx context.Context, kinds []engine.Kind, resources []resource) (namespaced []bool, err error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(o.mgr.GetConfig(), endingWith(ctx, o.mgr.GetHTTPClient()))
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
			errs = append(errs, checkVerbs(&kinds[i], resources[i], verbs), o.checkSchema(ctx, client, &kinds[i]))
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

// newController returns the controller of one kind with its sources. It does not start the controller.
func (g *kindGroup) newController(ctx context.Context, e *engine.Engine, r resource, namespaced bool) (controller.Controller, error) {
	o, opts := g.operator, r.options()
	options := opts.controller
	options.Reconciler = testhook.WrapReconciler(ctx, e, e)
	for _, wrap := range o.wrappers {
		options.Reconciler = wrap(options.Reconciler)
	}
	if len(o.wrappers) > 0 {
		options.Reconciler = guardedReconciler(options.Reconciler)
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
	} else {
		options.RateLimiter = e.QueueRateLimiter(options.RateLimiter)
	}
	if options.SkipNameValidation == nil {
		// A process can run several operators with the same controller names one after the other, for example in tests.
		options.SkipNameValidation = new(true)
	}
	if options.LogConstructor == nil {
		options.LogConstructor = newLogConstructor(e)
	}
	c, err := controller.NewTypedUnmanaged(e.Name, options)
	if err != nil {
		return nil, err
	}
	observed := sync.OnceFunc(func() { close(g.observed[e]) })
	warmer := o.fixed.warm.of(e.Name)
	objects := operator.BeforeStart(source.Kind(g.sources, e.New(), e.EventHandler(guardedPredicates(e, "WithPredicates", opts.predicates)...)), warmer.end)
	watched := g.indexes.AfterSync(e.Name, objects, func(ctx context.Context) {
		observed()
		g.warm[e].observed(ctx, e.HandlesEachObjectAtStart())
		if len(e.Indexes.IDs()) > 0 {
			g.epoch.Await(ctx, e)
		}
		if warmer != nil {
			e.PruneIndexes() // objects may have been deleted between the end of the warmer and the start of the source
		}
		g.synced()
	})
	gates := []*operator.Gate{g.indexes}
	if g.after != nil {
		gates = append(gates, g.after)
	}
	sources := []source.Source{
		watched, operator.AfterGates(g.synced, g.indexes), operator.AfterGates(func() { g.setIndexesSynced(true) }, gates...), // the workers start afterwards
		e.Promoter(options.MaxConcurrentReconciles), e.BackgroundSource(),
	}
	for _, c := range r.relatedKinds() {
		sources = append(sources, c.source(g.sources, e, namespaced))
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

// operatorIdentity returns the name of the operator for log lines. With peering, this is the identity as a peer, and otherwise the host name. In a
// pod, the host name is the name of the pod by default.
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
	base := lazylog.New(e.Log.WithValues("controller", e.Name, "kind", e.GVK.Kind))
	return func(req *reconcile.Request) logr.Logger {
		if req == nil {
			return base
		}
		return base.WithValues("namespace", req.Namespace, "name", req.Name)
	}
}
