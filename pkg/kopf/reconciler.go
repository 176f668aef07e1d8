package kopf

import (
	"context"
	"errors"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var errRequeue = errors.New("the reconciler wants to be called again")

// reconcileBackoff is that of level-triggered handlers without one of their own.
var reconcileBackoff = progress.Exponential(100*time.Millisecond, 2*time.Minute)

// FromReconciler makes a handler of a reconciler, to keep the one you have:
//
//	databases.OnReconcile("main", kopf.FromReconciler[*v1.Database](reconciler))
//
// It gets the object's name, and reads the object itself. Its RequeueAfter is respected; if it sets only the
// deprecated Requeue, it is called again with pauses that grow from 100 milliseconds to 2 minutes. Its errors
// are retried with the handler's backoff; reconcile.TerminalError is not. It is not called for objects that
// are gone.
func FromReconciler[T client.Object](r reconcile.Reconciler) Handler[T] {
	if r == nil {
		return nil
	}
	var hint sync.Once
	return func(ctx context.Context, req *Request[T]) error {
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(req.Object)})
		if err != nil {
			return err
		}
		if result.Requeue && result.RequeueAfter <= 0 { //nolint:staticcheck // it is deprecated, but reconcilers that set it exist
			return Temporary(errRequeue, reconcileBackoff(req.Attempt, nil))
		}
		if short := validation.Duration(result.RequeueAfter); short != nil {
			hint.Do(func() {
				log.FromContext(ctx).Info("Warning: the RequeueAfter of the reconciler is very short", "requeueAfter", short.Error())
			})
		}
		req.requeueAfter = result.RequeueAfter
		if req.Reason != ReasonReconcile && req.requeueAfter > 0 {
			return Temporary(errRequeue, req.requeueAfter)
		}
		return nil
	}
}

// owners finds the owners of an object that are of the kind, by their owner references.
func ownerKeys(kind *engine.Kind, namespaced bool) func(client.Object) []client.ObjectKey {
	return func(obj client.Object) (keys []client.ObjectKey) {
		for _, ref := range obj.GetOwnerReferences() {
			if ref.Kind != kind.GVK.Kind || groupOf(ref.APIVersion) != kind.GVK.Group {
				continue
			}
			key := client.ObjectKey{Name: ref.Name}
			if namespaced {
				key.Namespace = obj.GetNamespace()
			}
			keys = append(keys, key)
		}
		return keys
	}
}
