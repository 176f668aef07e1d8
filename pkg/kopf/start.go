package kopf

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
)

// Start validates the operator, asks the API server for its kinds, and handles their objects until
// the context ends. The manager calls it.
func (o *Operator) Start(ctx context.Context) error {
	kinds, err := o.kinds()
	if err != nil {
		return err
	}
	if err := o.discover(kinds); err != nil {
		return err
	}
	release, err := o.claim(kinds)
	if err != nil {
		return err
	}
	defer release()
	settings := o.settings
	settings.Client, settings.Cache, settings.Live = o.mgr.GetClient(), o.mgr.GetCache(), o.mgr.GetAPIReader()

	group, ctx := errgroup.WithContext(ctx)
	for i, kind := range kinds {
		c, err := o.controller(engine.New(settings, kind), o.resources[i].options())
		if err != nil {
			return fmt.Errorf("%s: %w", kind.GVK.Kind, err)
		}
		group.Go(func() error {
			if err := c.Start(ctx); err != nil {
				return fmt.Errorf("%s: %w", kind.GVK.Kind, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// discover learns from the API server how it serves the kinds, and tells which it does not.
func (o *Operator) discover(kinds []engine.Kind) error {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(o.mgr.GetConfig(), o.mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("discovering the served kinds: %w", err)
	}
	var problems []error
	for i := range kinds {
		served, hasStatus, err := lookUp(client, kinds[i].GVK)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: asking whether the API server serves it: %w", kinds[i].GVK.Kind, err))
		case !served:
			problems = append(problems, fmt.Errorf("%s: the API server does not serve %s: install its CustomResourceDefinition first",
				kinds[i].GVK.Kind, kinds[i].GVK.GroupVersion()))
		}
		kinds[i].HasStatus = hasStatus
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("the operator cannot start:\n%w", err)
	}
	return nil
}

func lookUp(client discovery.DiscoveryInterface, gvk schema.GroupVersionKind) (served, hasStatus bool, err error) {
	list, err := client.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	plural := ""
	for _, r := range list.APIResources {
		if r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
			plural, served = r.Name, true
		}
	}
	for _, r := range list.APIResources {
		hasStatus = hasStatus || served && r.Name == plural+"/status"
	}
	return served, hasStatus, nil
}

// controller builds the controller of one kind; it is not started yet.
func (o *Operator) controller(e *engine.Engine, opts *resourceOptions) (controller.Controller, error) {
	options := opts.controller
	options.Reconciler = e
	for _, wrap := range o.wrappers {
		options.Reconciler = wrap(options.Reconciler)
	}
	if opts.concurrency > 0 {
		options.MaxConcurrentReconciles = opts.concurrency
	}
	options.DefaultFromConfig(o.mgr.GetControllerOptions())
	if options.MaxConcurrentReconciles <= 0 {
		options.MaxConcurrentReconciles = DefaultConcurrency
	}
	if options.RateLimiter == nil {
		options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstBackoff, lastBackoff)
	}
	if options.SkipNameValidation == nil {
		// Operators come and go within a process (in tests, with each leadership): a name is not used up.
		options.SkipNameValidation = new(true)
	}
	if options.LogConstructor == nil {
		options.LogConstructor = o.logger(e)
	}
	c, err := controller.NewTypedUnmanaged(e.Name, options)
	if err != nil {
		return nil, err
	}
	return c, c.Watch(source.Kind(o.mgr.GetCache(), e.New(), e.Inventory().EventHandler(opts.predicates...)))
}

// Faults of the API are retried with these pauses, for each object by itself.
const (
	firstBackoff = 10 * time.Millisecond
	lastBackoff  = 2 * time.Minute
)

func (o *Operator) logger(e *engine.Engine) func(*reconcile.Request) logr.Logger {
	base := o.mgr.GetLogger().WithValues("controller", e.Name, "kind", e.GVK.Kind)
	return func(req *reconcile.Request) logr.Logger {
		if req == nil {
			return base
		}
		return base.WithValues("namespace", req.Namespace, "name", req.Name)
	}
}
