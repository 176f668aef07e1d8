package engine

import (
	"context"
	"slices"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/preview"
)

// Preview returns what the first reconcile in a new process would do with an object. It calls the handlers' predicates, but no handlers, and
// writes nothing. It keeps nothing about the object. The problems are about stored data that is unreadable.
func (e *Engine) Preview(ctx context.Context, obj client.Object) (g preview.Group, problems []error, err error) {
	ctx = log.IntoContext(ctx, logr.Discard())
	known := &objectState{}
	known.ExistedAtStart = true
	r := e.newReconciliation(known)
	if err := r.draft.SetBase(obj); err != nil {
		return g, nil, err
	}
	if e.Remote != nil {
		if err := r.session.UseOverlay(ctx); err != nil {
			return g, nil, err
		}
	}
	e.detect(ctx, r, func(err error) { problems = append(problems, err) })
	for id, handler := range e.BackgroundHandlers.All() {
		input := match.Input{Object: r.draft.Content()}
		if obj.GetDeletionTimestamp() == nil && plan.MatchObject(logr.Discard(), id, &handler.Handler, r.matching.view, input).Accepts() {
			r.matching.background = append(r.matching.background, id)
		}
	}
	e.selectHandlers(ctx, r)
	e.makePlan(ctx, r)
	g = preview.Group{Cause: string(r.session.Cause.Reason), Starts: r.matching.background, Paused: IsObjectPaused(obj), Objects: 1}
	if !r.session.Cause.Reason.HasHandlers() {
		g.Cause = "none"
	}
	for _, id := range r.matching.selection.Selected {
		if !r.session.Records.Record(id).Finished() {
			g.Handlers = append(g.Handlers, id)
		}
	}
	if r.session.Cause.Reason == cause.Update {
		for _, item := range r.session.Cause.Diff {
			g.Changed = append(g.Changed, item.Path.String())
		}
	}
	slices.Sort(g.Changed)
	g.Changed = slices.Compact(g.Changed)
	switch e.finalizerAction(r) {
	case cause.AddFinalizer:
		g.Finalizer = "add"
	case cause.RemoveFinalizer:
		g.Finalizer = "remove"
		if r.session.Cause.Deleting {
			g.Handlers = nil // the object is then deleted
		}
	case cause.KeepFinalizer:
	}
	return g, problems, nil
}
