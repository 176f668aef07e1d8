package engine

import (
	"context"

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
	for _, id := range c.concerned {
		handler, _ := e.Handlers.Get(id)
		if e.matchesCause(ctx, c, id, handler, situation) {
			c.selected = append(c.selected, id)
			if handler.SelectedOnlyByResume(situation, c.subject()) {
				c.joining = append(c.joining, id)
			}
		}
	}
}
