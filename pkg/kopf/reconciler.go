package kopf

import (
	"context"
	"errors"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var errRequeue = errors.New("the reconciler has requested to be called again")

// reconcileBackoff is the default backoff of OnReconcile handlers.
var reconcileBackoff = progress.Exponential(100*time.Millisecond, 2*time.Minute)

// FromReconciler returns a handler that calls a reconciler of controller-runtime, so that existing reconcilers can be reused:
//
//	databases.OnReconcile("main", kopf.FromReconciler[*v1.Database](reconciler))
//
// The reconciler receives the namespace and name of the object. OnReconcile handlers are not called for objects that no longer exist. After an error, the
// operator calls the reconciler again with the backoff of the handler, except after reconcile.TerminalError. RequeueAfter sets the delay to the next call.
// After the deprecated Requeue, the operator calls the reconciler again with a delay that grows from 100 milliseconds to 2 minutes. Requeue counts as a
// temporary error. In a cause handler, RequeueAfter also counts as a temporary error.
func FromReconciler[T client.Object](r reconcile.Reconciler) Handler[T] {
	if r == nil {
		return nil
	}
	var warnOnce sync.Once
	return func(ctx context.Context, req *Request[T]) error {
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(req.Object)})
		if err != nil {
			return err
		}
		if result.Requeue && result.RequeueAfter <= 0 { //nolint:staticcheck // deprecated, but existing reconcilers set it
			return Temporary(errRequeue, reconcileBackoff(req.Attempt, nil))
		}
		if tooShort := validation.DurationUnit(result.RequeueAfter); tooShort != nil {
			warnOnce.Do(func() {
				log.FromContext(ctx).Info("The RequeueAfter of the reconciler is very short", "requeueAfter", tooShort.Error())
			})
		}
		req.requeueAfter = result.RequeueAfter
		if req.Reason != ReasonReconcile && req.requeueAfter > 0 {
			return Temporary(errRequeue, req.requeueAfter)
		}
		return nil
	}
}

// ownerRequests returns a function that maps an object to requests for its owners of the kind, in any version.
func ownerRequests(kind *engine.Kind, namespaced bool) handler.MapFunc {
	return func(_ context.Context, obj client.Object) (requests []reconcile.Request) {
		for _, ref := range obj.GetOwnerReferences() {
			if ref.Kind != kind.GVK.Kind || groupOf(ref.APIVersion) != kind.GVK.Group {
				continue
			}
			key := client.ObjectKey{Name: ref.Name}
			if namespaced {
				key.Namespace = obj.GetNamespace()
			}
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
		return requests
	}
}
