package kopf

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
)

// again is when a level-triggered handler wants to be called again.
type again = time.Duration

// FromReconciler makes a handler of a reconciler, to keep the one you have:
//
//	databases.OnReconcile("main", kopf.FromReconciler[*v1.Database](reconciler))
//
// It gets the object's name, and reads the object itself. Its RequeueAfter is respected, its errors are
// retried with the handler's backoff; reconcile.TerminalError is not. It is not called for objects that
// are gone.
func FromReconciler[T client.Object](r reconcile.Reconciler) Handler[T] {
	if r == nil {
		return nil
	}
	return func(ctx context.Context, req *Request[T]) error {
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(req.Object)})
		if err != nil {
			return err
		}
		req.again = result.RequeueAfter
		if req.Reason != ReasonReconcile && req.again > 0 {
			return Temporary(errors.New("the reconciler wants to be called again"), req.again)
		}
		return nil
	}
}

// owners finds the owners of an object that are of the kind, by their owner references.
func owners(kind *engine.Kind, namespaced bool) func(client.Object) []client.ObjectKey {
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
