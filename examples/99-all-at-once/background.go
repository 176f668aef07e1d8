package main

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// watch runs for each gold cluster until its context is cancelled.
func watch(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Watching")
	<-ctx.Done()
	log.FromContext(ctx).Info("Stopped watching", "why", context.Cause(ctx).Error())
	return nil
}

// bill logs the number of nodes. The supervisor calls it each second for clusters that are ready.
func bill(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("Billing", "nodes", req.Object.Spec.Nodes)
	return nil
}

// announce logs changes of the condition Ready.
func announce(ctx context.Context, req *Request) error {
	before, now := req.Field()
	log.FromContext(ctx).Info("Ready has changed", "before", before, "now", now)
	return nil
}
