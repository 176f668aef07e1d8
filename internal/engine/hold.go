package engine

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// ensureFinalizer adds the finalizer before the first handler that needs it is called, and removes it when no handler needs it any more. After it has
// added the finalizer, the reconcile continues with the response of the API server. ensureFinalizer returns the time to wait; 0 to continue.
func (e *Engine) ensureFinalizer(ctx context.Context, r *reconciliation) (time.Duration, error) {
	change := &patch.Change{Before: r.before, Content: r.content}
	switch e.finalizerAction(r) {
	case cause.AddFinalizer:
		change.AddFinalizer = e.Finalizer
	case cause.RemoveFinalizer:
		change.RemoveFinalizer = e.Finalizer
	default:
		return 0, nil
	}
	log.FromContext(ctx).V(1).Info("Changing the finalizer", "add", change.AddFinalizer, "remove", change.RemoveFinalizer)
	written, err := e.send(ctx, r, change)
	if err != nil || written == nil || change.RemoveFinalizer != "" {
		return consistencyTimeout, err
	}
	if err := e.restart(ctx, r, written); err != nil {
		return 0, err
	}
	if e.finalizerAction(r) != cause.KeepFinalizer {
		return consistencyTimeout, nil // another client has changed the object, or a webhook has removed the finalizer
	}
	return 0, nil
}

// finalizerAction decides whether the finalizer must be added or removed.
func (e *Engine) finalizerAction(r *reconciliation) cause.FinalizerAction {
	needed := e.backgroundNeedsFinalizer(r) || slices.ContainsFunc(r.matching, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return handler.IsMandatoryDelete()
	})
	return cause.DecideFinalizer(r.cause.Facts, needed)
}
