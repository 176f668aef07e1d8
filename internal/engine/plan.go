package engine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// plan begins or continues the cause, and picks the handlers to call in this pass.
func (e *Engine) makePlan(ctx context.Context, r *reconciliation) {
	if !r.cause.Reason.HasHandlers() {
		return
	}
	r.state.Relabel(string(r.cause.Reason), r.selection.Resuming)
	for purpose, sum := range r.state.Begin(string(r.cause.Reason), r.selection.Selected, now()) {
		log.FromContext(ctx).Info("A cause was superseded before it was handled", "cause", purpose, "by", r.cause.Reason,
			"succeeded", sum.Succeeded, "failed", sum.Failed, "left", sum.Left)
	}
	if r.cause.Reason == cause.Delete {
		r.known.Worker.OptionalDeleteCalled = true // the optional ones are called with the others
	}
	if !r.cause.Reversed { // that is written before anybody is called
		e.planNext(ctx, r)
	}
}

// pick computes the next plan. If the lifecycle has left handlers for another reconcile, nothing else is called in this one.
func (e *Engine) planNext(ctx context.Context, r *reconciliation) {
	if r.plan.Limited {
		r.plan.Next = nil
		return
	}
	r.plan = plan.Make(&e.Handlers, r.selection.Selected, r.called, r.state.Record, e.Lifecycle, now())
	for _, skip := range r.plan.Skipped {
		err := skip.Err()
		log.FromContext(ctx).Info("Handler skipped permanently", "handler", skip.ID, "reason", r.cause.Reason, "error", err.Error())
		r.state.RecordOutcome(skip.ID, progress.Outcome{Err: err, Final: true}, now())
	}
}
