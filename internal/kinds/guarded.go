package kinds

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// guardedPredicates wraps the user's predicates. If one of them faults, it rejects the event.
func guardedPredicates(e *engine.Engine, option string, predicates []predicate.Predicate) (guarded []predicate.Predicate) {
	for _, p := range predicates {
		accepts := func(obj client.Object, call func() bool) (accepted bool) {
			err := guard.Call(option, func() error { accepted = call(); return nil })
			if err != nil {
				metrics.HandlerPanics.WithLabelValues(e.Name, option).Inc()
				e.Log.Error(err, "A predicate panicked; it rejects the event", "controller", e.Name, "object", client.ObjectKeyFromObject(obj), "stack", guard.Trace(err))
			}
			return accepted && err == nil
		}
		guarded = append(guarded, predicate.Funcs{
			CreateFunc:  func(ev event.CreateEvent) bool { return accepts(ev.Object, func() bool { return p.Create(ev) }) },
			UpdateFunc:  func(ev event.UpdateEvent) bool { return accepts(ev.ObjectNew, func() bool { return p.Update(ev) }) },
			DeleteFunc:  func(ev event.DeleteEvent) bool { return accepts(ev.Object, func() bool { return p.Delete(ev) }) },
			GenericFunc: func(ev event.GenericEvent) bool { return accepts(ev.Object, func() bool { return p.Generic(ev) }) },
		})
	}
	return guarded
}

// callsUserCode returns the value of CallsUserCode for a kind.
func callsUserCode(settings *engine.Settings, kind *engine.Kind) bool {
	stores := []any{settings.Store, settings.Baseline}
	for _, store := range kind.HandlerStores() {
		stores = append(stores, store)
	}
	isForeign := func(store any) bool {
		_, own := store.(interface{ CallsNoUserCode() })
		return !own
	}
	return slices.ContainsFunc(stores, isForeign) || settings.Remote != nil || len(kind.ConditionOptions) > 0
}

// guardedReconciler wraps a reconciler from a user's wrapper.
func guardedReconciler(inner reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (result reconcile.Result, err error) {
		err = guard.Call("WithReconcilerWrapper", func() error { result, err = inner.Reconcile(ctx, req); return err })
		if trace := guard.Trace(err); trace != "" {
			log.FromContext(ctx).Error(err, "A reconciler of WithReconcilerWrapper panicked; retrying with a backoff", "stack", trace)
		}
		return result, err
	})
}

// guardTransforms wraps the user's functions in cache options. If a transformation faults, the cache stores the object as it is.
func guardTransforms(options *cache.Options, logger logr.Logger) {
	guarded := func(transform toolscache.TransformFunc) toolscache.TransformFunc {
		if transform == nil {
			return nil
		}
		return func(obj any) (out any, err error) {
			fault := guard.Call("the transformation of the cache", func() error { out, err = transform(obj); return nil })
			if fault != nil {
				logger.Error(fault, "A transformation of the cache panicked; the cache stores the object as it is", "type", fmt.Sprintf("%T", obj), "stack", guard.Trace(fault))
				return obj, nil
			}
			return out, err
		}
	}
	inNamespaces := func(namespaces map[string]cache.Config) map[string]cache.Config {
		namespaces = maps.Clone(namespaces)
		for name, config := range namespaces {
			config.Transform = guarded(config.Transform)
			namespaces[name] = config
		}
		return namespaces
	}
	options.DefaultTransform, options.DefaultNamespaces = guarded(options.DefaultTransform), inNamespaces(options.DefaultNamespaces)
	options.ByObject = maps.Clone(options.ByObject)
	for obj, byObject := range options.ByObject {
		byObject.Transform, byObject.Namespaces = guarded(byObject.Transform), inNamespaces(byObject.Namespaces)
		options.ByObject[obj] = byObject
	}
}
