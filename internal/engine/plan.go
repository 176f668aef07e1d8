package engine

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// matchHandlers finds the cause handlers whose filters accept the object. If no handler matches, the engine only removes its own data from the object.
func (e *Engine) matchHandlers(ctx context.Context, r *reconciliation) {
	r.matching.view = e.causeView(r)
	r.matching.handlers = plan.Matching(log.FromContext(ctx), &e.Handlers, r.matching.view, r.subject())
	r.Unmatched = len(r.matching.handlers) == 0
	if !r.Unmatched {
		return
	}
	if r.Cause.Reason.HasHandlers() && r.Cause.Reason != cause.Delete {
		r.Cause.Reason = cause.Noop
	}
	r.Cause.StalePin = r.Cause.StalePin || e.Pin.Fetch(r.Base()) != nil
}

// selectHandlers finds the handlers that are called for the cause.
func (e *Engine) selectHandlers(ctx context.Context, r *reconciliation) {
	if !r.Cause.Reason.HasHandlers() {
		return
	}
	situation := match.Cause{
		Reason:   string(r.Cause.Reason),
		Initial:  cause.RunsResumeHandlers(r.Cause.Reason, r.Cause.Facts),
		Deleting: r.Cause.Facts.Deleting,
	}
	r.matching.selection = plan.Select(log.FromContext(ctx), &e.Handlers, r.matching.handlers, r.matching.view, situation, r.subject())
}

// makePlan begins or continues the cause, and plans the calls of this reconcile.
func (e *Engine) makePlan(ctx context.Context, r *reconciliation) {
	if !r.Cause.Reason.HasHandlers() {
		return
	}
	r.Records.Relabel(string(r.Cause.Reason), r.matching.selection.Resuming)
	for purpose, sum := range r.Records.Begin(string(r.Cause.Reason), r.matching.selection.Selected, now()) {
		log.FromContext(ctx).Info("Another cause has superseded an unfinished one", "cause", purpose, "by", r.Cause.Reason,
			"succeeded", sum.Succeeded, "failed", sum.Failed, "left", sum.Left)
	}
	if r.Cause.Reason == cause.Delete {
		r.known.Worker.OptionalDeleteCalled = true // optional handlers are called with the others
	}
	if !r.Cause.Reversed { // a reversal is stored before handlers are called
		e.planNext(ctx, r)
	}
}

// planNext plans the next calls. If the lifecycle has left handlers for another reconcile, nothing else is called in this one.
func (e *Engine) planNext(ctx context.Context, r *reconciliation) {
	if r.calls.plan.Limited {
		r.calls.plan.Next = nil
		return
	}
	r.calls.plan = plan.Make(&e.Handlers, r.matching.selection.Selected, r.calls.called, r.Records.Record, e.Lifecycle, now())
	for _, skip := range r.calls.plan.Skipped {
		err := skip.Err()
		log.FromContext(ctx).Info("Handler skipped permanently", "handler", skip.ID, "reason", r.Cause.Reason, "error", err.Error())
		r.Records.RecordOutcome(skip.ID, progress.Outcome{Err: err, Final: true}, now())
	}
}

// schedule returns when the object must be reconciled again.
func (e *Engine) schedule(r *reconciliation) reconcile.Result {
	at := now()
	delay, left := e.untilNext(r, at)
	if len(r.known.Worker.ReconcileHandlers) > 0 {
		if next, ok := r.nextReconcile(at); ok && (!left || next < delay) {
			delay, left = next, true
		}
	}
	if !left {
		return reconcile.Result{}
	}
	result := requeue(delay)
	result.Priority = new(retrying)
	return result
}

// untilNext returns the time until there is something to do for the cause, and false if there is nothing.
func (e *Engine) untilNext(r *reconciliation, at time.Time) (delay time.Duration, left bool) {
	return plan.Schedule(plan.Situation{Reason: r.Cause.Reason, Finished: r.IsFinished(), Edited: r.Cause.IsPinned(), Plan: r.calls.plan}, r.Records, at)
}

// ensureFinalizer adds the finalizer before the first handler that needs it is called, and removes it when no handler needs it any more. Handlers are
// called when the cache shows the finalizer: a handler that reads or updates its object with a client would otherwise use an outdated state.
// ensureFinalizer returns the time to wait; 0 to continue.
func (e *Engine) ensureFinalizer(ctx context.Context, r *reconciliation) (time.Duration, error) {
	change := &patch.Change{Before: r.Base(), Content: r.Content()}
	switch e.finalizerAction(r) {
	case cause.AddFinalizer:
		change.AddFinalizer = e.Finalizer
	case cause.RemoveFinalizer:
		change.RemoveFinalizer = e.Finalizer
	default:
		return 0, nil
	}
	log.FromContext(ctx).V(1).Info("Changing the finalizer", "add", change.AddFinalizer, "remove", change.RemoveFinalizer)
	_, err := r.Send(ctx, change)
	return e.ConsistencyTimeout, err
}

// finalizerAction decides whether the finalizer must be added or removed.
func (e *Engine) finalizerAction(r *reconciliation) cause.FinalizerAction {
	needed := e.background.NeedsFinalizer(r.Base().GetUID(), r.matching.background) || slices.ContainsFunc(r.matching.handlers, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return handler.IsMandatoryDelete()
	})
	return cause.DecideFinalizer(r.Cause.Facts, needed)
}

func (e *Engine) hasFinalizer(obj client.Object) bool {
	return slices.Contains(obj.GetFinalizers(), e.Finalizer)
}
