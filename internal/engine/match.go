package engine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
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
	c.selection = plan.Select(log.FromContext(ctx), &e.Handlers, c.matching, c.view, situation, c.subject())
}
