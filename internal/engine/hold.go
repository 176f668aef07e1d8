package engine

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// hold puts the finalizer on the object before the first handler that needs it, and takes it off
// when none does any more. Either takes a pass of its own: the next one sees it done.
// Returns how long to wait for that; 0: go on.
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
	_, err := e.send(ctx, r, change)
	return consistencyTimeout, err
}

// holding decides what to do about the finalizer.
func (e *Engine) finalizerAction(r *reconciliation) cause.FinalizerAction {
	needed := e.backgroundNeedsFinalizer(r) || slices.ContainsFunc(r.matching, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return handler.IsMandatoryDelete()
	})
	return cause.DecideFinalizer(r.cause.Facts, needed)
}
