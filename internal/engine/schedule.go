package engine

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
)

// idlePause is how long a lifecycle may refuse all that is due before it is asked again.
const idlePause = time.Second

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

// untilNext tells how long it is until there is something to do for the cause; false if there is nothing.
func (e *Engine) untilNext(c *cycle, at time.Time) (delay time.Duration, left bool) {
	switch {
	case c.cause.Reason == cause.Noop:
		return c.state.StaleAfter(at) // until what a cause has left can be removed
	case !c.cause.Reason.HasHandlers():
		return 0, false
	case c.closed() && c.cause.IsPinned():
		return 0, true // it was edited meanwhile, and nothing else may wake us
	case c.closed():
		return c.state.StaleAfter(at)
	}
	delay, left = c.state.Delay(at, c.blocked...)
	if left && delay == 0 && c.refused {
		delay = idlePause
	}
	return delay, left
}
