package engine

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// schedule tells when to come back: when the next handler is due. The records remember it, the
// queue only wakes: the answer is computed anew in every pass (B-03).
func (e *Engine) schedule(c *cycle) reconcile.Result {
	if !c.reason.Handled() {
		return reconcile.Result{}
	}
	delay, left := c.state.Delay(time.Now())
	if !left {
		return reconcile.Result{}
	}
	return requeue(delay)
}
