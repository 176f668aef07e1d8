package engine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
)

// match selects the handlers that want to be called for the cause.
func (e *Engine) selectHandlers(ctx context.Context, r *reconciliation) {
	if !r.cause.Reason.HasHandlers() {
		return
	}
	situation := match.Cause{
		Reason:   string(r.cause.Reason),
		Initial:  cause.RunsResumeHandlers(r.cause.Reason, r.cause.Facts),
		Deleting: r.cause.Facts.Deleting,
	}
	r.selection = plan.Select(log.FromContext(ctx), &e.Handlers, r.matching, r.view, situation, r.subject())
}
