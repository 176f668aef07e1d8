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
	r.view = e.causeView(r)
	r.matching = plan.Matching(log.FromContext(ctx), &e.Handlers, r.view, r.subject())
	if len(r.matching) > 0 {
		return
	}
	if r.cause.Reason.HasHandlers() && r.cause.Reason != cause.Delete {
		r.cause.Reason = cause.Noop
	}
	r.cause.StalePin = r.cause.StalePin || e.Pin.Fetch(r.before) != nil
}

// selectHandlers finds the handlers that are called for the cause.
func (e *Engine) selectHandlers(ctx context.Context, r *reconciliation) {
	if !r.cause.Reason.HasHandlers() {
		return
	}
	situation := match.Cause{
		Reason:   string(r.cause.Reason),
		Initial:  cause.RunsResumeHandlers(r.cause.Reason, r.cause.Facts),
		Deleting: r.cause.Facts.Deleting,
	}
	r.selection = plan.Select(log.FromContext(ctx), &e.Handlers, r.matching, r.view, situation, r.subject())
}

// makePlan begins or continues the cause, and plans the calls of this reconcile.
func (e *Engine) makePlan(ctx context.Context, r *reconciliation) {
	if !r.cause.Reason.HasHandlers() {
		return
	}
	r.state.Relabel(string(r.cause.Reason), r.selection.Resuming)
	for purpose, sum := range r.state.Begin(string(r.cause.Reason), r.selection.Selected, now()) {
		log.FromContext(ctx).Info("Another cause has superseded an unfinished one", "cause", purpose, "by", r.cause.Reason,
			"succeeded", sum.Succeeded, "failed", sum.Failed, "left", sum.Left)
	}
	if r.cause.Reason == cause.Delete {
		r.known.Worker.OptionalDeleteCalled = true // optional handlers are called with the others
	}
	if !r.cause.Reversed { // a reversal is stored before handlers are called
		e.planNext(ctx, r)
	}
}

// planNext plans the next calls. If the lifecycle has left handlers for another reconcile, nothing else is called in this one.
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

// schedule returns when the object must be reconciled again.
func (e *Engine) schedule(r *reconciliation) reconcile.Result {
	at := now()
	delay, left := e.untilNext(r, at)
	if next, ok := r.nextReconcile(at); ok && (!left || next < delay) {
		delay, left = next, true
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
	return plan.Schedule(plan.Situation{Reason: r.cause.Reason, Finished: r.isFinished(), Edited: r.cause.IsPinned(), Plan: r.plan}, r.state, at)
}

// ensureFinalizer adds the finalizer before the first handler that needs it is called, and removes it when no handler needs it any more. Handlers are
// called when the cache shows the finalizer: a handler that reads or updates its object with a client would otherwise use an outdated state.
// ensureFinalizer returns the time to wait; 0 to continue.
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
	return e.ConsistencyTimeout, err
}

// finalizerAction decides whether the finalizer must be added or removed.
func (e *Engine) finalizerAction(r *reconciliation) cause.FinalizerAction {
	needed := e.backgroundNeedsFinalizer(r) || slices.ContainsFunc(r.matching, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return handler.IsMandatoryDelete()
	})
	return cause.DecideFinalizer(r.cause.Facts, needed)
}

func (e *Engine) hasFinalizer(obj client.Object) bool {
	return slices.Contains(obj.GetFinalizers(), e.Finalizer)
}
