package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/18-conditions/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Request is what the handlers are given.
type Request = kopf.Request[*v1.Bucket]

// create does not succeed at once: Created is False until it does, with this error.
func create(_ context.Context, req *Request) error {
	if req.Attempt.Number == 0 {
		return errors.New("the store is busy")
	}
	return nil
}

// fill takes its time. What it says in between is written by Flush, and not at the end of the pass.
func fill(ctx context.Context, req *Request) error {
	const files = 3
	for n := range files {
		req.Conditions().Unknown("Filled", "Copying", fmt.Sprintf("%d of %d files", n, files))
		req.Object.Status.Files = n
		if err := req.Flush(ctx); err != nil {
			return err
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	req.Object.Status.Files = files
	req.Conditions().True("Filled", "Copied", fmt.Sprintf("%d files", files))
	return nil
}

// connect is called again until the store is there. Its error is that of the condition, too.
func connect(_ context.Context, req *Request) error {
	if store := req.Object.Spec.Store; store != "attic" {
		return conditions.Error{Type: "Reachable", Reason: "NoSuchStore", Err: fmt.Errorf("there is no store %q", store)}
	}
	req.Conditions().True("Reachable", "Connected", "")
	return nil
}

// resize is not called again before somebody edits the size.
func resize(_ context.Context, req *Request) error {
	if size := req.Object.Spec.SizeGiB; size > 1000 {
		return kopf.Permanent(fmt.Errorf("%d GiB are too many: 1000 at most", size))
	}
	return nil
}

// tell is where an operator would do what depends on others, be it on the conditions of their objects.
func announce(ctx context.Context, req *Request) error {
	before, now := req.Field() // nil if it was not there
	log.FromContext(ctx).Info("Ready has changed", "before", before, "now", now)
	return nil
}

func remind(ctx context.Context, req *Request) error {
	ready, _ := req.Conditions().Get("Ready")
	log.FromContext(ctx).Info("Still not ready", "why", ready.Reason)
	return nil
}
