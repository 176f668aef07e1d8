package main

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// watch looks at its database now and then, and returns when its context ends. There is one for each object.
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
			req.SetResult(map[string]any{"rounds": rounds}) // written when it has returned nil: status.watch.rounds
			return nil
		}
		// req.Object is the object as it was at the beginning, Latest is what it is now. That costs no request.
		if now := sizeOf(req.Latest()); now != size {
			logger.Info("The size has changed", "before", size, "now", now)
			size = now
		}
	}
}

// warmUp fails at first. When it has returned nil, it is not started again for this object, by this process.
func warmUp(ctx context.Context, req *Request) error {
	if req.Attempt.Number == 0 {
		return errors.New("the database does not answer yet")
	}
	log.FromContext(ctx).Info("Warmed up", "after", req.Attempt.Last)
	return unstructured.SetNestedField(req.Object.Object, true, "status", "warm") // patched for us
}

// connection does not stop as it should: it is told to, but what it has to finish cannot be hurried.
func connection(hangUp time.Duration) kopf.Handler[*unstructured.Unstructured] {
	return func(ctx context.Context, _ *Request) error {
		<-ctx.Done()
		<-time.After(hangUp) // with ctx.Done() in a select here, it would be a good one
		log.FromContext(ctx).Info("Connection closed")
		return nil
	}
}

// move takes a minute if nobody ends it. It would be waited for by all other handlers of its object.
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

// drop is called when all of them have been told to stop; they may still be about to.
func drop(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Dropping the database")
	return nil
}

func sizeOf(database *unstructured.Unstructured) int64 {
	size, _, _ := unstructured.NestedInt64(database.Object, "spec", "sizeGiB")
	return size
}
