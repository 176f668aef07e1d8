package main

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// watch reads its database regularly, and returns when its context is cancelled. Each object has its own goroutine.
func watch(ctx context.Context, req *Request) error {
	logger := log.FromContext(ctx)
	size := sizeOf(req.Object)
	logger.Info("Watching", "size", size)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for rounds := 1; ; rounds++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			logger.Info("Stopped watching", "why", context.Cause(ctx).Error())
			req.SetResult(map[string]any{"rounds": rounds}) // the engine stores the result in status.watch after watch has returned
			return nil
		}
		// req.Object is the state at the start of the daemon; Latest returns the current state without a request.
		if now := sizeOf(req.Latest()); now != size {
			logger.Info("The size has changed", "before", size, "now", now)
			size = now
		}
	}
}

// warmUp fails at first. When it has returned nil, this process does not start it again for this object.
func warmUp(ctx context.Context, req *Request) error {
	if req.Attempt.Number == 0 {
		return errors.New("the database does not answer yet")
	}
	log.FromContext(ctx).Info("Warmed up", "after", req.Attempt.Last)
	return unstructured.SetNestedField(req.Object.Object, true, "status", "warm") // the engine writes the change
}

// connection ignores the cancellation of its context for some time, because its last operation cannot be interrupted.
func connection(hangUp time.Duration) kopf.Handler[*unstructured.Unstructured] {
	return func(ctx context.Context, _ *Request) error {
		<-ctx.Done()
		<-time.After(hangUp) // a select with ctx.Done() would return early
		log.FromContext(ctx).Info("Connection closed")
		return nil
	}
}

// move takes a minute unless its context is cancelled. All other handlers of the object wait for it.
func move(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Moving the data")
	select {
	case <-time.After(time.Minute):
		return nil
	case <-ctx.Done():
		log.FromContext(ctx).Info("Stopped moving the data", "why", context.Cause(ctx).Error())
		return context.Cause(ctx)
	}
}

// drop logs the deletion. The engine calls it after cancelling the contexts of all daemons. The daemons may still run.
func drop(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Dropping the database")
	return nil
}

func sizeOf(database *unstructured.Unstructured) int64 {
	size, _, _ := unstructured.NestedInt64(database.Object, "spec", "sizeGiB")
	return size
}
