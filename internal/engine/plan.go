package engine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// plan begins or continues the cause, and picks the handlers to call in this pass.
func (e *Engine) plan(ctx context.Context, c *cycle) {
	if !c.cause.Reason.HasHandlers() {
		return
	}
	c.state.Relabel(string(c.cause.Reason), c.selection.Resuming)
	for purpose, sum := range c.state.Begin(string(c.cause.Reason), c.selection.Selected, now()) {
		log.FromContext(ctx).Info("A cause was superseded before it was handled", "cause", purpose, "by", c.cause.Reason,
			"succeeded", sum.Succeeded, "failed", sum.Failed, "left", sum.Left)
	}
	if c.cause.Reason == cause.Delete {
		c.memory.Worker.OptionalDeleteCalled = true // the optional ones are called with the others
	}
	if !c.cause.Reversed { // that is written before anybody is called
		e.pick(ctx, c)
	}
}

// pick computes the next plan. If the lifecycle has left handlers for another reconcile, nothing else is called in this one.
func (e *Engine) pick(ctx context.Context, c *cycle) {
	if c.plan.Limited {
		c.plan.Next = nil
		return
	}
	c.plan = plan.Make(&e.Handlers, c.selection.Selected, c.called, c.state.Record, e.Lifecycle, now())
	for _, skip := range c.plan.Skipped {
		err := skip.Err()
		log.FromContext(ctx).Info("Handler skipped permanently", "handler", skip.ID, "reason", c.cause.Reason, "error", err.Error())
		c.state.RecordOutcome(skip.ID, progress.Outcome{Err: err, Final: true}, now())
	}
}
