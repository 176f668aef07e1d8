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

// Request is the request that the handlers receive.
type Request = kopf.Request[*v1.Bucket]

// create fails once. Until it succeeds, the condition Created is False and contains the error.
func create(_ context.Context, req *Request) error {
	if req.Attempt.Number == 0 {
		return errors.New("the store is busy")
	}
	return nil
}

// fill takes some time. Flush writes its conditions while fill runs, instead of at the end of the reconcile.
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

// connect fails until the store exists. Its error also sets the condition.
func connect(_ context.Context, req *Request) error {
	if store := req.Object.Spec.Store; store != "attic" {
		return conditions.Error{Type: "Reachable", Reason: "NoSuchStore", Err: fmt.Errorf("there is no store %q", store)}
	}
	req.Conditions().True("Reachable", "Connected", "")
	return nil
}

// resize fails permanently for a large size. The engine calls it again after an edit of the size.
func resize(_ context.Context, req *Request) error {
	if size := req.Object.Spec.SizeGiB; size > 1000 {
		return kopf.Permanent(fmt.Errorf("%d GiB are too many: 1000 at most", size))
	}
	return nil
}

// announce logs the value. A real operator could notify other systems here.
func announce(ctx context.Context, req *Request) error {
	before, now := req.Field() // before is nil if the condition was missing
	log.FromContext(ctx).Info("Ready has changed", "before", before, "now", now)
	return nil
}

func remind(ctx context.Context, req *Request) error {
	ready, _ := req.Conditions().Get("Ready")
	log.FromContext(ctx).Info("Still not ready", "why", ready.Reason)
	return nil
}
