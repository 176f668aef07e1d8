package kopf

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
)

// Owns triggers the [Resource.OnReconcile] handlers of the owners when an object of obj's kind is created, changed or deleted. All owner
// references count, even those without controller: true. With predicates, an event must pass all of them. If a predicate panics, the event
// is rejected.
func (r *Resource[T]) Owns(obj client.Object, predicates ...predicate.Predicate) *Resource[T] {
	r.related = append(r.related, kinds.Related{Method: "Owns", Object: obj, Predicates: predicates})
	return r
}

// Watches calls mapFunc when an object of obj's kind is created, changed or deleted, and triggers the [Resource.OnReconcile] handlers of
// the objects that it returns. With predicates, an event must pass all of them. If a predicate panics, the event is rejected.
//
// For an update, mapFunc is called for both the old and the new object. It must return quickly, and must not change the object, which is
// shared with the cache. If mapFunc panics, the operator logs the panic and triggers no handlers. Requests for objects that don't exist are
// ignored.
//
// mapFunc is not called for objects that exist when the operator starts, because all OnReconcile handlers are called at the start anyway.
// To react to objects that a handler reads by name, [Request.Track] is simpler.
func (r *Resource[T]) Watches(obj client.Object, mapFunc handler.MapFunc, predicates ...predicate.Predicate) *Resource[T] {
	return r.watches("Watches", obj, mapFunc, predicates)
}

// WatchesMetadata is like [Resource.Watches], but the operator watches and caches only the metadata of the objects, so mapFunc receives
// objects of type *metav1.PartialObjectMetadata.
func (r *Resource[T]) WatchesMetadata(obj client.Object, mapFunc handler.MapFunc, predicates ...predicate.Predicate) *Resource[T] {
	return r.watches("WatchesMetadata", obj, mapFunc, predicates)
}

func (r *Resource[T]) watches(method string, obj client.Object, mapFunc handler.MapFunc, predicates []predicate.Predicate) *Resource[T] {
	if mapFunc == nil {
		r.errs = append(r.errs, fmt.Errorf("%s(%T, nil): pass a function that returns the objects to handle, or use Owns", method, obj))
		return r
	}
	r.related = append(r.related, kinds.Related{Method: method, Object: obj, MapFunc: mapFunc, Predicates: predicates})
	return r
}

// TriggerFrom triggers the [Resource.OnReconcile] handlers of the objects that a source requests. The operator starts the source together
// with the kind's controller. Requests for objects that don't exist are ignored.
//
// To trigger single objects, for example from an HTTP handler, [Operator.Enqueue] is simpler.
func (r *Resource[T]) TriggerFrom(src source.Source) *Resource[T] {
	if src == nil {
		r.errs = append(r.errs, errors.New("TriggerFrom(nil): pass a source, such as source.Channel(...)"))
		return r
	}
	r.triggers = append(r.triggers, src)
	return r
}

// Enqueue triggers an object's [Resource.OnReconcile] handlers, as a change to a related object would. Only the kind, the namespace and the
// name of obj count. Enqueue returns an error if the operator isn't running, for example because a different replica is the leader. It also
// fails if the kind has no handler that can be triggered like this, or if the operator hasn't observed the object. Enqueue is safe for
// concurrent use.
func (o *Operator) Enqueue(obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, o.mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("enqueueing an object: %w", err)
	}
	engines := o.kinds.Engines.All()
	if len(engines) == 0 {
		return fmt.Errorf("enqueueing a %s: the operator is not running", gvk.Kind)
	}
	key := client.ObjectKeyFromObject(obj)
	served, known := false, false
	for _, e := range engines {
		if e.GVK == gvk && e.HandlesRelatedChanges() {
			served, known = true, e.Trigger(key) || known
		}
	}
	switch {
	case !served:
		return fmt.Errorf("enqueueing a %s: the operator has no OnReconcile handler for %s, and no handler with RetryOnRelatedChange", gvk.Kind, gvk)
	case !known:
		return fmt.Errorf("enqueueing a %s: the operator has not observed the object %s", gvk.Kind, key)
	}
	return nil
}

// Track reads an object into obj, which must have a name, and a namespace if its kind is namespaced. When obj changes later, or is deleted,
// the [Resource.OnReconcile] handlers of Object are triggered. If Track returns a NotFound error, they are triggered when obj is created.
//
// Track reads from the manager's cache, or from the operator's own cache with [WithNamespaces], [WithNamespaceFunc], [WithWatchSelector] or
// [WithSharding]. The first call for a kind starts a watch, so the operator needs permission to list and watch the kind. Track returns an
// error if the cache hasn't synced after 10 seconds.
//
// A handler tracks the objects that it has passed to Track since the start of its last successful attempt. Besides OnReconcile handlers,
// only cause handlers with [RetryOnRelatedChange] can track objects, until they have finished. In a test without an operator, Track just
// reads the object with Client. Track is safe for concurrent use.
func (r *Request[T]) Track(ctx context.Context, obj client.Object) error {
	switch {
	case r.call != nil && r.call.Track != nil:
		return r.call.Track(ctx, obj)
	case r.Reason == ReasonReconcile || r.call == nil:
		return r.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	}
	return Permanent(fmt.Errorf("the handler %q cannot track objects: use an OnReconcile handler, which changes of other objects trigger, or add the option RetryOnRelatedChange", r.Handler))
}

// checkRelated sets the gvk of the related kinds and returns their errors.
func (r *sharedResource[T]) checkRelated(scheme *runtime.Scheme) (errs []error) {
	isTriggered := slices.ContainsFunc(r.handlers, func(h *typedHandler[T]) bool { return h.handlerKind == reconcileHandler || h.RetriesOnRelatedChange })
	for i, c := range r.related {
		switch gvk, err := gvkOf(c.Object, scheme); {
		case isNil(c.Object):
			errs = append(errs, fmt.Errorf("%s(nil): pass an empty object of the kind, such as &appsv1.Deployment{}", c.Method))
		case err != nil:
			errs = append(errs, fmt.Errorf("%s(%T): the kind is not registered in the manager's scheme: "+
				"call AddToScheme of its API package, or set apiVersion and kind of an unstructured object: %w", c.Method, c.Object, err))
		case !isTriggered:
			errs = append(errs, fmt.Errorf("%s has no effect without an OnReconcile handler or a handler with RetryOnRelatedChange: add one or remove %[1]s", c.Method))
		case slices.Contains(c.Predicates, nil):
			errs = append(errs, fmt.Errorf("%s(%T) has a nil predicate: remove it", c.Method, c.Object))
		case c.GVK != gvk: // only the first check writes, because a later one may run while the operator reads the kinds
			r.related[i].GVK = gvk
		}
	}
	if len(r.triggers) > 0 && !isTriggered {
		errs = append(errs, errors.New("TriggerFrom has no effect without an OnReconcile handler or a handler with RetryOnRelatedChange: add one or remove TriggerFrom"))
	}
	return errs
}
