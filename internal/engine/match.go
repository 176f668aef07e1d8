package engine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
)

// match selects the handlers that want to be called for the cause.
func (e *Engine) match(ctx context.Context, c *cycle) {
	if !c.cause.Reason.HasHandlers() {
		return
	}
	situation := match.Cause{
		Reason:   string(c.cause.Reason),
		Initial:  cause.RunsResumeHandlers(c.cause.Reason, c.cause.Facts),
		Deleting: c.cause.Facts.Deleting,
	}
	refusals := log.FromContext(ctx).V(4)
	for _, id := range c.concerned {
		handler, _ := e.Handlers.Get(id)
		ok, why := e.matches(ctx, c, id, handler, situation)
		if ok {
			c.selected = append(c.selected, id)
			if handler.SelectedOnlyByResume(situation, c.subject()) {
				c.joining = append(c.joining, id)
			}
		} else if refusals.Enabled() {
			refusals.Info("Handler not selected", "handler", id, "reason", c.cause.Reason, "why", why)
		}
	}
}
