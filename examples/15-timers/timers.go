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

// ping writes what it finds out into the status: what is changed in req.Object is patched after each call.
func ping(_ context.Context, req *Request) error {
	return unstructured.SetNestedField(req.Object.Object, time.Now().Format(time.RFC3339Nano), "status", "seen")
}

// bill is called once for each second of the object's life, but for those during which no operator ran.
func bill(ctx context.Context, req *Request) error {
	age := time.Since(req.Object.GetCreationTimestamp().Time)
	log.FromContext(ctx).Info("Billing", "seconds", int(age.Seconds()))
	return nil
}

// compact writes an annotation. That is no update, and does not begin the idle time anew: it was us.
func compact(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("Compacting: unchanged for a second")
	return unstructured.SetNestedField(req.Object.Object, time.Now().Format(time.RFC3339),
		"metadata", "annotations", "demo.example.com/compacted")
}

func backup(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("Backing up", "second", time.Now().Second())
	req.SetResult("done") // status.backup
	return nil
}

// replicate fails as handlers do: an error is retried, before the interval counts again.
func replicate(ctx context.Context, req *Request) error {
	size, _, _ := unstructured.NestedInt64(req.Object.Object, "spec", "sizeGiB")
	switch {
	case size > 100:
		return kopf.Permanent(fmt.Errorf("%d GiB are too many", size)) // not again, before it is changed
	case req.Attempt.Number == 0:
		return kopf.Temporary(errors.New("the line is busy"), 100*time.Millisecond)
	}
	log.FromContext(ctx).Info("Replicated", "size", size)
	return nil
}

// changed is called when somebody has edited an object, and never for what the timers have changed.
func changed(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("The database has changed", "diff", req.Diff.String())
	return nil
}
