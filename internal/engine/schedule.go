package engine

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/plan"
)

// schedule tells when to come back: when the next handler is due. The records remember it, the
// queue only wakes: the answer is computed anew in every pass (B-03).
func (e *Engine) schedule(r *reconciliation) reconcile.Result {
	at := now()
	delay, left := e.untilNext(r, at)
	if reconcileHandler, ok := r.nextReconcile(at); ok && (!left || reconcileHandler < delay) {
		delay, left = reconcileHandler, true
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
