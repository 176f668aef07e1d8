package engine

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/plan"
)

// schedule tells when to come back: when the next handler is due. The records remember it, the
// queue only wakes: the answer is computed anew in every pass (B-03).
func (e *Engine) schedule(c *cycle) reconcile.Result {
	at := now()
	delay, left := e.untilNext(c, at)
	if level, ok := c.nextLevel(at); ok && (!left || level < delay) {
		delay, left = level, true
	}
	if !left {
		return reconcile.Result{}
	}
	result := requeue(delay)
	result.Priority = new(retrying)
	return result
}

// untilNext returns the time until there is something to do for the cause, and false if there is nothing.
func (e *Engine) untilNext(c *cycle, at time.Time) (delay time.Duration, left bool) {
	return plan.Schedule(plan.Situation{Reason: c.cause.Reason, Finished: c.closed(), Edited: c.cause.IsPinned(), Plan: c.plan}, c.state, at)
}
