package main

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// traced is a middleware that makes a span of each call of a handler, for any kind.
func traced[T client.Object](tracer Tracer) kopf.Middleware[T] {
	return func(next kopf.Handler[T]) kopf.Handler[T] {
		return func(ctx context.Context, req *kopf.Request[T]) error {
			ctx, span := tracer.Start(ctx, "handle "+string(req.Reason))
			defer span.End()
			err := next(ctx, req)
			if err != nil {
				span.RecordError(err)
			}
			return err
		}
	}
}

// tracedCycle makes a span of each cycle: all that is done for one object at one time, with the requests to
// the API server. The spans of handlers are within it, as it puts its own into their contexts.
func tracedCycle(tracer Tracer) func(reconcile.Reconciler) reconcile.Reconciler {
	return func(next reconcile.Reconciler) reconcile.Reconciler {
		return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			ctx, span := tracer.Start(ctx, "cycle "+req.String())
			defer span.End()
			result, err := next.Reconcile(ctx, req)
			if err != nil {
				span.RecordError(err)
			}
			return result, err // as they are: they say when the object comes back
		})
	}
}
