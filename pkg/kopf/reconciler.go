package kopf

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var errRequeue = errors.New("the reconciler has requested to be called again")

// requeueBackoff is the delay after Requeue in a cause handler.
var requeueBackoff = progress.Exponential(100*time.Millisecond, 2*time.Minute)

// FromReconciler returns a handler that calls a reconciler of controller-runtime, so that you can reuse existing ones:
//
//	databases.OnReconcile("main", kopf.FromReconciler[*v1.Database](reconciler))
//
// The reconciler receives the object's namespace and name. In an OnReconcile handler, it is called just as with controller-runtime's
// builder: right after each change, even for objects that are being deleted, and once more when an object no longer exists. Its
// RequeueAfter, Requeue and Priority work, and its errors are treated as in controller-runtime. After reconcile.TerminalError, it is only
// called again after a change.
//
// If you wrap the result in your own function before you pass it to OnReconcile, add [EvenIfDeleted]; the reconciler then isn't called for
// objects that no longer exist. Middleware of [Resource.Use] doesn't have this effect. In a cause handler, RequeueAfter and Requeue count
// as temporary errors.
//
//go:noinline
func FromReconciler[T client.Object](r reconcile.Reconciler) Handler[T] {
	if r == nil {
		return nil
	}
	return func(ctx context.Context, req *Request[T]) error {
		if req.call != nil && req.call.SkipsDeletion {
			return Permanent(fmt.Errorf("the handler %q wraps a reconciler, but is not called for objects that are being deleted: add the option EvenIfDeleted", req.Handler))
		}
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(req.Object)})
		again := max(0, result.RequeueAfter)
		rateLimited := result.Requeue && again == 0 //nolint:staticcheck // deprecated, but existing reconcilers set it
		if req.Reason == ReasonReconcile {
			req.requeue = invoke.Requeue{After: again, RateLimited: rateLimited, Priority: result.Priority}
			return err
		}
		switch {
		case err != nil:
			return err
		case rateLimited:
			return Temporary(errRequeue, requeueBackoff(req.Attempt, nil))
		case again > 0:
			return Temporary(errRequeue, again)
		}
		return nil
	}
}

// wrapsReconciler reports whether a handler is the result of [FromReconciler].
func wrapsReconciler[T client.Object](h Handler[T]) bool {
	return reflect.ValueOf(h).Pointer() == reflect.ValueOf(FromReconciler[T](reconcile.Func(nil))).Pointer()
}
