package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// ping writes the time into the status. The engine writes changes of req.Object after each call.
func ping(_ context.Context, req *Request) error {
	return unstructured.SetNestedField(req.Object.Object, time.Now().Format(time.RFC3339Nano), "status", "seen")
}

// bill logs the age of the object. The supervisor calls it for each second since the creation, except while no operator runs.
func bill(ctx context.Context, req *Request) error {
	age := time.Since(req.Object.GetCreationTimestamp().Time)
	log.FromContext(ctx).Info("Billing", "seconds", int(age.Seconds()))
	return nil
}

// compact writes an annotation. Its own write does not count as an update and does not restart the idle time.
func compact(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("Compacting: unchanged for a second")
	return unstructured.SetNestedField(req.Object.Object, time.Now().Format(time.RFC3339),
		"metadata", "annotations", "demo.example.com/compacted")
}

func backup(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("Backing up", "second", time.Now().Second())
	req.SetResult("done") // the engine stores the result in status.backup
	return nil
}

// replicate may fail. After a temporary error, the supervisor retries it after the delay of the error instead of the interval.
func replicate(ctx context.Context, req *Request) error {
	size, _, _ := unstructured.NestedInt64(req.Object.Object, "spec", "sizeGiB")
	switch {
	case size > 100:
		return kopf.Permanent(fmt.Errorf("%d GiB are too many", size)) // the supervisor calls replicate again only after a change of the object
	case req.Attempt.Number == 0:
		return kopf.Temporary(errors.New("the line is busy"), 100*time.Millisecond)
	}
	log.FromContext(ctx).Info("Replicated", "size", size)
	return nil
}

// changed logs edits. The engine calls it when another client has edited an object, and never for writes of the timers.
func changed(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("The database has changed", "diff", req.Diff.String())
	return nil
}
