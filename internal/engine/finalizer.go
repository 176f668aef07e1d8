package engine

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// ensureFinalizer adds the finalizer before the first handler that needs it is called, and removes it when no handler and no running daemon
// or timer needs it. After delete handlers, the commit step removes it. Handlers are called once the cache shows the finalizer, because a
// handler that reads or updates its object with a client would otherwise work on outdated state.
func (e *Engine) ensureFinalizer(ctx context.Context, r *reconciliation) (Hold, error) {
	action := e.finalizerAction(r)
	if action == cause.KeepFinalizer {
		return Hold{}, nil
	}
	if action == cause.RemoveFinalizer && !r.session.Cause.Deleting {
		if r.details.FinalizerRemovals++; r.details.isContested() {
			e.warnFinalizerContested(ctx, r)
			return Hold{}, nil
		}
	}
	change := &patch.Change{Before: r.draft.Base(), Content: r.draft.Content(), AddFinalizer: e.Finalizer}
	if action == cause.RemoveFinalizer {
		change.AddFinalizer, change.RemoveFinalizer = "", e.Finalizer
	}
	log.FromContext(ctx).V(1).Info("Changing the finalizer", "add", change.AddFinalizer, "remove", change.RemoveFinalizer)
	defer r.noteResult()
	err := r.session.Send(ctx, change)
	return holdFor(HeldByFinalizer, e.ConsistencyTimeout), err
}

// finalizerAction decides whether to add or remove the finalizer.
func (e *Engine) finalizerAction(r *reconciliation) cause.FinalizerAction {
	needed := e.background.runner.NeedsFinalizer(r.draft.Base().GetUID(), r.matching.background) || slices.ContainsFunc(r.matching.handlers, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return handler.IsMandatoryDelete()
	})
	if needed {
		r.details.FinalizerRemovals = 0
	} else if r.details.isContested() {
		return cause.KeepFinalizer
	}
	return cause.DecideFinalizer(r.session.Cause.Facts, needed)
}

// warnFinalizerContested reports that another client keeps adding the finalizer, so that the engine leaves it to that client.
func (e *Engine) warnFinalizerContested(ctx context.Context, r *reconciliation) {
	const note = "Another client keeps adding the finalizer, which no handler of this operator needs: leaving it to that client. " +
		"If two operators handle the kind, one of them needs another name: WithFinalizer"
	log.FromContext(ctx).Info(note, "finalizer", e.Finalizer)
	e.events.Warn(r.draft.Base(), "FinalizerContested", note)
}
