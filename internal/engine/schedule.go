package engine

import (
	"context"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/plan"
)

// schedule determines when the object must be reconciled again.
func (e *Engine) schedule(ctx context.Context, r *reconciliation) (Hold, error) {
	at := now()
	delay, left := e.untilNext(r, at)
	left = left && !(r.held.isActive() && r.session.Cause.Reason.HasHandlers()) // a cycle that is held continues at the end of the hold
	if next := r.nextReconcile(); next != nil && (!left || next.due.Sub(at) < delay) {
		r.result = requeue(next.due.Sub(at))
		r.result.Priority = next.priority
	} else if left {
		r.result = requeue(delay)
		r.result.Priority = new(retrying)
	}
	if until := r.held.Until; !until.IsZero() {
		r.result = requeueBefore(r.result, max(until.Sub(at), time.Millisecond))
	}
	r.result = requeueBefore(r.result, e.releaseLoops(ctx, r))
	e.expectOwnEvent(r)
	return Hold{}, nil
}

// untilNext returns the time until there is something to do for the cause, and false if there is nothing.
func (e *Engine) untilNext(r *reconciliation, at time.Time) (delay time.Duration, left bool) {
	return plan.Schedule(plan.Situation{Reason: r.session.Cause.Reason, Finished: r.session.IsFinished(), Edited: r.session.Cause.WasEdited(), Plan: r.calls.plan}, r.session.Records, at)
}

// nextReconcile returns the state of the reconcile handler that is due next without a change; nil if there is none. A handler that waits for another one is called after
// that one.
func (r *reconciliation) nextReconcile() (next *reconcileHandlerState) {
	for id, st := range r.details.ReconcileHandlers {
		handler, _ := r.engine.ReconcileHandlers.Get(id)
		if !st.due.IsZero() && (next == nil || st.due.Before(next.due)) && r.blockingHandler(handler) == "" {
			next = st
		}
	}
	return next
}
