package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// A Related kind is a kind whose changes trigger handlers of a different kind.
type Related struct {
	Method     string // Owns, Watches or WatchesMetadata
	Object     client.Object
	GVK        schema.GroupVersionKind // the kind of Object
	MapFunc    handler.MapFunc         // nil for Owns
	Predicates []predicate.Predicate
}

// watched returns the object that selects the kind's informer.
func (c *Related) watched() client.Object {
	if c.Method != "WatchesMetadata" {
		return c.Object
	}
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(c.GVK)
	return obj
}

// source returns a source that triggers an engine's OnReconcile handlers when an object of the related kind changes.
func (c *Related) source(objects cache.Cache, e *engine.Engine) source.Source {
	mapFunc := c.guardedMapFunc(e)
	if c.MapFunc == nil {
		mapFunc = ownerRequests(&e.Kind)
	}
	predicates := append([]predicate.Predicate{changes{}}, guardedPredicates(e, c.Method, c.Predicates)...)
	return e.Triggered(source.Kind(objects, c.watched(), handler.EnqueueRequestsFromMapFunc(mapFunc), predicates...))
}

// guardedMapFunc wraps the user's map function. If it faults, there are no requests.
func (c *Related) guardedMapFunc(e *engine.Engine) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) (requests []reconcile.Request) {
		err := guard.Call(c.Method, func() error { requests = c.MapFunc(ctx, obj); return nil })
		if err != nil {
			metrics.HandlerPanics.WithLabelValues(e.Name, c.Method).Inc()
			e.Log.Error(err, "The map function of a related kind panicked; no handler is triggered", "controller", e.Name,
				"kind", c.GVK.Kind, "object", client.ObjectKeyFromObject(obj), "stack", guard.Trace(err))
			return nil
		}
		return requests
	}
}

// changes is a predicate that accepts changes of objects. It rejects the initial list, because the engine handles all its objects at the
// start anyway, and updates without a change, such as resyncs.
type changes struct{ predicate.Funcs }

func (changes) Create(e event.CreateEvent) bool { return !e.IsInInitialList }
func (changes) Update(e event.UpdateEvent) bool {
	return e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion()
}

// checkServed returns an error if the operator can't watch a related kind, because the kind's cache would then never sync.
func (c *Related) checkServed(client discovery.DiscoveryInterface, kind *engine.Kind, namespaced bool) error {
	verbs, _, relatedNamespaced, err := discover(client, c.GVK)
	switch {
	case err != nil:
		return fmt.Errorf("%s: discovering the related kind %s: %w", kind.GVK.Kind, c.GVK.Kind, err)
	case verbs == nil:
		return fmt.Errorf("%s: %s(%s): %w", kind.GVK.Kind, c.Method, c.GVK.Kind, errNotServed(client, c.GVK))
	case !slices.Contains(verbs, "list") || !slices.Contains(verbs, "watch"):
		return fmt.Errorf("%s: %s(%s): the API server does not support list and watch for the kind, only %s: remove the %[2]s",
			kind.GVK.Kind, c.Method, c.GVK.Kind, strings.Join(verbs, ", "))
	case c.MapFunc == nil && namespaced && !relatedNamespaced:
		return fmt.Errorf("%s: Owns(%s): a cluster-scoped object cannot have an owner in a namespace: remove the Owns", kind.GVK.Kind, c.GVK.Kind)
	}
	return nil
}

// ownerRequests returns a function that maps an object to requests for those of its owners that are of the kind, in any version.
func ownerRequests(kind *engine.Kind) handler.MapFunc {
	return func(_ context.Context, obj client.Object) (requests []reconcile.Request) {
		for _, ref := range obj.GetOwnerReferences() {
			if ref.Kind != kind.GVK.Kind || groupOf(ref.APIVersion) != kind.GVK.Group {
				continue
			}
			key := client.ObjectKey{Name: ref.Name}
			if kind.Namespaced {
				key.Namespace = obj.GetNamespace()
			}
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
		return requests
	}
}
