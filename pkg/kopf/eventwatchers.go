package kopf

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/eventwatch"
)

// eventNamespacesInterval is the interval at which an operator with WithNamespaces compares its namespaces with the watched namespaces, in memory.
const eventNamespacesInterval = time.Second

// eventWatchers prepares the watches of the OnEventAbout handlers. The returned function runs the watches until its context ends.
func (g *kindGroup) eventWatchers(resources []resource) (run func(context.Context), err error) {
	o := g.operator
	var handlers []func(ctx context.Context)
	for i, r := range resources {
		for _, s := range r.eventSelections() {
			core, err := corev1client.NewForConfigAndClient(o.mgr.GetConfig(), o.mgr.GetHTTPClient())
			if err != nil {
				return nil, fmt.Errorf("watching Events: %w", err)
			}
			e := g.engines[i]
			handlers = append(handlers, func(ctx context.Context) { g.watchEventsOf(ctx, core, e, s) })
		}
	}
	return func(ctx context.Context) {
		var group sync.WaitGroup
		for _, watch := range handlers {
			group.Go(func() { watch(ctx) })
		}
		group.Wait()
	}, nil
}

// watchEventsOf watches the Events for one handler until the context ends. It runs one watch for each kind of About and each namespace.
func (g *kindGroup) watchEventsOf(ctx context.Context, core corev1client.EventsGetter, e *engine.Engine, s *eventSelection) {
	o := g.operator
	owners := eventwatch.NewOwners(o.mgr.GetAPIReader(), e.GVK.GroupKind(), e.Namespaced, s.read())
	watcher := o.newEventWatcher(e, s, owners)
	watcher.Client = core
	var group sync.WaitGroup
	defer group.Wait()
	watch := func(ctx context.Context, namespace string) {
		for _, gvk := range s.about {
			one := watcher
			one.Namespace, one.Kind, one.Group = namespace, gvk.Kind, gvk.Group
			group.Go(func() { one.Run(ctx) })
		}
	}
	if o.namespaces == nil {
		for _, namespace := range g.eventNamespaces(e) {
			watch(ctx, namespace)
		}
		return
	}
	watched := map[string]context.CancelFunc{}
	defer func() {
		for _, stop := range watched {
			stop()
		}
	}()
	ticker := time.NewTicker(eventNamespacesInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		desired := map[string]bool{}
		for _, namespace := range g.eventNamespaces(e) {
			desired[namespace] = true
			if watched[namespace] == nil {
				namespaceCtx, stop := context.WithCancel(ctx)
				watched[namespace] = stop
				watch(namespaceCtx, namespace)
			}
		}
		for namespace, stop := range watched {
			if !desired[namespace] {
				stop()
				delete(watched, namespace)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// eventNamespaces returns the namespaces whose Events are watched. "" means all namespaces.
func (g *kindGroup) eventNamespaces(e *engine.Engine) (namespaces []string) {
	o, gvk := g.operator, e.GVK
	if !e.Namespaced {
		gvk = schema.GroupVersionKind{}
	}
	if o.namespaces != nil {
		namespaces = o.namespaces.names()
	} else if namespaces = o.cachedNamespaces(gvk, g.after != nil); len(namespaces) == 0 {
		return []string{""}
	}
	if !e.Namespaced {
		namespaces = withDefaultNamespace(namespaces)
	}
	return namespaces
}
