package main

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// traced is a middleware that creates a span for each call of a handler, for any kind.
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

// tracedCycle creates a span for each reconcile of an object, with its requests to the API server. It puts the span
// into the context, so that the spans of handlers are its children.
func tracedCycle(tracer Tracer) func(reconcile.Reconciler) reconcile.Reconciler {
	return func(next reconcile.Reconciler) reconcile.Reconciler {
		return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			ctx, span := tracer.Start(ctx, "cycle "+req.String())
			defer span.End()
			result, err := next.Reconcile(ctx, req)
			if err != nil {
				span.RecordError(err)
			}
			return result, err // keep both unchanged, because they determine the requeue
		})
	}
}
