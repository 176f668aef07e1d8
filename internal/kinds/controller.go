package kinds

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
)

// newController returns the unit's controller with its sources. It doesn't start the controller.
func (u *Unit) newController(ctx context.Context) (controller.Controller, error) {
	e, kind, options := u.engine, &u.kind, u.kind.Controller
	options.Reconciler = testhook.WrapReconciler(ctx, e, e)
	for _, wrap := range u.runtime.Wrappers {
		options.Reconciler = wrap(options.Reconciler)
	}
	if len(u.runtime.Wrappers) > 0 {
		options.Reconciler = guardedReconciler(options.Reconciler)
	}
	options.DefaultFromConfig(u.runtime.Manager.GetControllerOptions())
	if options.MaxConcurrentReconciles <= 0 {
		options.MaxConcurrentReconciles = DefaultConcurrency
	}
	if options.RateLimiter == nil {
		options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstBackoff, lastBackoff)
	} else {
		options.RateLimiter = e.QueueRateLimiter(options.RateLimiter)
	}
	if options.SkipNameValidation == nil {
		// A process can run several operators with the same controller names, one after the other, for example in tests.
		options.SkipNameValidation = new(true)
	}
	if options.LogConstructor == nil {
		options.LogConstructor = newLogConstructor(e)
	}
	c, err := controller.NewTypedUnmanaged(e.Name, options)
	if err != nil {
		return nil, err
	}
	observed := sync.OnceFunc(func() { close(u.observed) })
	warmer := u.runtime.Warmth.of(e.Name)
	objects := operator.BeforeStart(source.Kind(u.sources, e.New(), e.EventHandler(guardedPredicates(e, "WithPredicates", kind.Predicates)...)), warmer.end)
	watched := u.indexes.AfterSync(e.Name, objects, func(ctx context.Context) {
		observed()
		e.ConfirmAtRest()
		u.verified.observed(ctx, e.HandlesEachObjectAtStart())
		if len(e.Indexes.IDs()) > 0 || e.RollsOut() && e.Rollout != nil {
			u.epoch.Await(ctx, e)
		}
		e.BeginRollout()
		u.synced()
	})
	indexed := func() {
		if warmer != nil {
			e.PruneIndexes() // objects may have been deleted after the warmer had ended and before the source started
		}
		u.indexesSynced()
	}
	gates := []*operator.Gate{u.indexes}
	if u.after != nil {
		gates = append(gates, u.after)
	}
	sources := []source.Source{
		watched, operator.AfterGates(u.synced, u.indexes), operator.AfterGates(indexed, gates...), // the workers start afterwards
		e.Promoter(options.MaxConcurrentReconciles), e.BackgroundSource(),
	}
	for _, c := range kind.Related {
		sources = append(sources, c.source(u.sources, e))
	}
	for _, src := range kind.Triggers {
		sources = append(sources, e.Triggered(src))
	}
	for _, src := range sources {
		if err := c.Watch(src); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// DefaultConcurrency is how many workers a kind has by default.
const DefaultConcurrency = 16

// These constants limit the default backoff for each object after errors of the API server.
const (
	firstBackoff = 10 * time.Millisecond
	lastBackoff  = 2 * time.Minute
)

// newLogConstructor returns a controller's default LogConstructor.
func newLogConstructor(e *engine.Engine) func(*reconcile.Request) logr.Logger {
	base := engine.LazyLogger(e.Log.WithValues("controller", e.Name, "kind", e.GVK.Kind))
	return func(req *reconcile.Request) logr.Logger {
		if req == nil {
			return base
		}
		return base.WithValues("namespace", req.Namespace, "name", req.Name)
	}
}
