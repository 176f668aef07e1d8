package main

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Request is the request that the handlers receive.
type Request = kopf.Request[*unstructured.Unstructured]

func provision(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Provisioning")
	return nil
}

func resize(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("Resizing", "from", req.Diff[0].Old, "to", req.Diff[0].New)
	return nil
}

func reconnect(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Reconnecting")
	return nil
}

// watch logs that its context was cancelled because of a pause. The supervisor starts it again after the pause.
func watch(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Watching")
	<-ctx.Done()
	if errors.Is(context.Cause(ctx), daemons.ErrPaused) {
		log.FromContext(ctx).Info("Stopped watching")
	}
	return nil
}
