package engine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
)

// filter finds the cause handlers whose filters accept the object. If there are none, nothing is handled: the engine only removes what it has left on
// the object.
func (e *Engine) filter(ctx context.Context, c *cycle) {
	c.view = e.causeView(c)
	c.matching = plan.Matching(log.FromContext(ctx), &e.Handlers, c.view, c.subject())
	if len(c.matching) > 0 {
		return
	}
	if c.cause.Reason.HasHandlers() && c.cause.Reason != cause.Delete {
		c.cause.Reason = cause.Noop
	}
	c.cause.StalePin = c.cause.StalePin || e.Pin.Fetch(c.before) != nil
}
