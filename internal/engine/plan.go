package engine

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/tracking"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// planCalls plans the calls of the selected handlers that are due.
func (e *Engine) planCalls(ctx context.Context, r *reconciliation) (Hold, error) {
	if e.traits.retriesOnChange {
		r.noteRelatedChange()
	}
	e.grantRequests(ctx, r)
	e.makePlan(ctx, r)
	return Hold{}, nil
}

// selectHandlers finds the handlers that are called for the cause.
func (e *Engine) selectHandlers(ctx context.Context, r *reconciliation) {
	if !r.session.Cause.Reason.HasHandlers() {
		return
	}
	switch {
	case r.session.Cause.Reason == cause.Revision:
		r.selectRevised()
		return
	case r.session.Cause.Requested:
		r.selectRequested()
		return
	}
	situation := match.Cause{
		Reason:   string(r.session.Cause.Reason),
		Initial:  cause.RunsResumeHandlers(r.session.Cause.Reason, r.session.Cause.Facts),
		Deleting: r.session.Cause.Facts.Deleting,
	}
	r.matching.selection = plan.Select(log.FromContext(ctx), &e.Handlers, r.matching.handlers, r.matching.view, situation, r.subject())
	if r.session.Cause.Facts.Initial {
		e.selectResuming(r)
	}
}

// selectResuming corrects the selection for an object of the first list. What resume handlers do belongs to the process, for example
// opening a connection. So a success that an earlier process has stored doesn't count, while a handler that this process has called isn't
// called again.
func (e *Engine) selectResuming(r *reconciliation) {
	if r.session.Cause.Reason == cause.Create {
		if r.details.Creation == unknownCreation {
			r.details.Creation = ownCreation
			if r.session.Records.HasAttempts(string(cause.Create)) {
				r.details.Creation = earlierCreation
			}
		}
		return
	}
	r.matching.selection.Selected = slices.DeleteFunc(r.matching.selection.Selected, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		switch isHere := slices.Contains(r.details.Resumed, id); {
		case !handler.Resumes() || r.session.Cause.Reason == cause.Delete && !slices.Contains(r.matching.selection.Resuming, id):
		case r.session.Cause.Reason == cause.Resume && r.details.Creation == earlierCreation && !handler.Creates():
			return true // it is not called for objects that were just created
		case !isHere:
			for _, one := range append([]string{id}, r.session.Records.Record(id).Subrefs...) {
				if !slices.Contains(r.details.Resumed, one) {
					r.session.Records.Redo(one)
				}
			}
		case r.session.Cause.Reason == cause.Resume:
			return !r.session.Records.Record(id).Finished() // it was called for the creation
		}
		return false
	})
}

// makePlan starts or continues the cause, and plans this reconcile's calls.
func (e *Engine) makePlan(ctx context.Context, r *reconciliation) {
	if !r.session.Cause.Reason.HasHandlers() {
		return
	}
	r.supersedeRevision()
	r.session.Records.Relabel(r.session.Cause.Purpose(), r.matching.selection.Resuming)
	for purpose, sum := range r.session.Records.Begin(r.session.Cause.Purpose(), r.matching.selection.Selected, now()) {
		log.FromContext(ctx).Info("Another cause has superseded an unfinished one", "cause", purpose, "by", r.session.Cause.Reason,
			"succeeded", sum.Succeeded, "failed", sum.Failed, "left", sum.Left)
	}
	if r.calls.relatedChange {
		r.retryNow()
	}
	if r.session.Cause.Reason == cause.Delete {
		r.known.Worker.OptionalDeleteCalled = true // optional delete handlers are called together with the other delete handlers
	}
	if !r.session.Cause.Reversed && !r.held.isActive() { // this reconcile stores the reversal; the next one calls handlers
		e.planNext(ctx, r)
	}
}

// noteRelatedChange notes whether a related object has changed since the last reconcile. Handlers that aren't selected for the cause stop
// tracking objects.
func (r *reconciliation) noteRelatedChange() {
	r.calls.relatedChange = r.takeChanges()
	for id, handler := range r.engine.Handlers.All() {
		if handler.RetriesOnRelatedChange && !slices.Contains(r.matching.selection.Selected, id) {
			r.engine.tracker.Forget(tracking.Reader{Object: client.ObjectKeyFromObject(r.draft.Base()), Handler: id})
		}
	}
}

// retryNow makes waiting handlers due if they are called when related objects change, and their sub-handlers as well. The next attempt
// replaces the last one, so that changes don't use up the retries.
func (r *reconciliation) retryNow() {
	at := now()
	for _, id := range r.matching.selection.Selected {
		if handler, _ := r.engine.Handlers.Get(id); !handler.RetriesOnRelatedChange {
			continue
		}
		for _, id := range append([]string{id}, r.session.Records.Record(id).Subrefs...) {
			record := r.session.Records.Record(id)
			if record.Finished() || !record.Delayed.After(at) {
				continue
			}
			if record.Retries > 0 && !record.WaitsForSubs() {
				record.Retries--
			}
			record.Delayed = at
			r.session.Records.SetRecord(id, record)
		}
	}
}

// planNext plans the next calls. If the lifecycle has left handlers for a later reconcile, no more handlers are called in this one.
func (e *Engine) planNext(ctx context.Context, r *reconciliation) {
	if r.calls.plan.Limited {
		r.calls.plan.Next = nil
		return
	}
	r.calls.plan = plan.Make(&e.Handlers, r.matching.selection.Selected, r.calls.called, r.session.Records.Record, e.Lifecycle, now())
	for _, skip := range r.calls.plan.Skipped {
		err := skip.Err()
		log.FromContext(ctx).Info("Handler skipped permanently", "handler", skip.ID, "reason", r.session.Cause.Reason, "error", err.Error())
		r.session.Records.RecordOutcome(skip.ID, progress.Outcome{Err: err, Final: true}, now())
	}
	r.logRequested(ctx)
}

// maxChanges limits how many changes are kept while the reconcile handlers cannot be called.
const maxChanges = 100

// takeChanges takes the changes since the last reconcile, and keeps them until the reconcile handlers are matched. It reports whether a
// related object has changed. Our own writes don't count as changes.
func (r *reconciliation) takeChanges() (related bool) {
	changes := r.engine.states.TakeForeignChanges(client.ObjectKeyFromObject(r.draft.Base()), r.draft.Base().GetUID(), r.draft.Base().GetResourceVersion())
	if len(r.engine.ReconcileHandlers.IDs()) > 0 {
		if r.details.Changes = append(r.details.Changes, changes...); len(r.details.Changes) > maxChanges {
			r.details.Changes = []string{objectstate.RelatedChange}
		}
	}
	return slices.Contains(changes, objectstate.RelatedChange)
}

// schedule determines when the object must be reconciled again.
func (e *Engine) schedule(ctx context.Context, r *reconciliation) (Hold, error) {
	at := now()
	delay, left := e.untilNext(r, at)
	left = left && !(r.held.isActive() && r.session.Cause.Reason.HasHandlers()) // a held cycle continues when the hold is over
	if next := r.nextReconcile(); next != nil && (!left || next.due.Sub(at) < delay) {
		r.result = requeue(next.due.Sub(at))
		r.result.Priority = next.priority
	} else if left {
		r.result = requeue(delay)
		r.result.Priority = new(retrying)
	}
	if until := r.held.Until; !until.IsZero() {
		r.result = requeueBefore(r.result, max(until.Sub(at), conflictPause))
	}
	e.endRollout(r)
	if r.hasUnanswered() || r.hasDueRevision() {
		r.result = requeueBefore(r.result, conflictPause)
	}
	r.result = requeueBefore(r.result, e.releaseLoops(ctx, r))
	e.expectOwnEvent(r)
	return Hold{}, nil
}

// untilNext returns the time until there is something to do for the cause, and false if there is nothing.
func (e *Engine) untilNext(r *reconciliation, at time.Time) (delay time.Duration, left bool) {
	return plan.Schedule(plan.Situation{Reason: r.session.Cause.Reason, Finished: r.session.IsFinished(), Edited: r.session.Cause.WasEdited(), Plan: r.calls.plan}, r.session.Records, at)
}

// nextReconcile returns the state of the reconcile handler that is due next even without a change, or nil if there is none. It leaves out
// handlers that must wait for a different one, because they are called after that.
func (r *reconciliation) nextReconcile() (next *reconcileHandlerState) {
	for id, st := range r.details.ReconcileHandlers {
		handler, _ := r.engine.ReconcileHandlers.Get(id)
		if !st.due.IsZero() && (next == nil || st.due.Before(next.due)) && r.blockingHandler(handler) == "" {
			next = st
		}
	}
	return next
}
