package main

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/99-all-at-once/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// began stores the start time of the operator.
var began = kopf.NewMemo[time.Time]("began")

func open(ctx context.Context) error {
	began.Store(ctx, time.Now())
	log.FromContext(ctx).Info("Operator started")
	return nil
}

func closeAll(ctx context.Context) error {
	since, _ := began.Load(ctx)
	log.FromContext(ctx).Info("Operator stopped", "uptime", time.Since(since).String())
	return nil
}

// logSlowHandlers is a middleware that logs slow handlers.
func logSlowHandlers(next kopf.Handler[*v1.Cluster]) kopf.Handler[*v1.Cluster] {
	return func(ctx context.Context, req *Request) error {
		start := time.Now()
		err := next(ctx, req)
		if took := time.Since(start); took > time.Second {
			log.FromContext(ctx).Info("Handler was slow", "duration", took.String())
		}
		return err
	}
}

// logSlowReconciles wraps all reconciles and logs slow ones.
func logSlowReconciles(next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		start := time.Now()
		result, err := next.Reconcile(ctx, req)
		if took := time.Since(start); took > 5*time.Second {
			log.FromContext(ctx).Info("Reconcile was slow", "duration", took.String())
		}
		return result, err
	})
}
