package engine

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// idlePause is how long a lifecycle may refuse all that is due before it is asked again.
const idlePause = time.Second

// schedule tells when to come back: when the next handler is due. The records remember it, the
// queue only wakes: the answer is computed anew in every pass (B-03).
func (e *Engine) schedule(c *cycle) reconcile.Result {
	if !c.reason.Handled() {
		return reconcile.Result{}
	}
	delay, left := c.state.Delay(now())
	switch {
	case !left:
		return reconcile.Result{}
	case delay == 0 && len(c.planned) == 0:
		return requeue(idlePause)
	default:
		return requeue(delay)
	}
}
