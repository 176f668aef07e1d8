package engine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
)

// filter finds the cause handlers whose filters accept the object. If there are none, nothing is handled: the engine only removes what it has left on
// the object.
func (e *Engine) matchHandlers(ctx context.Context, r *reconciliation) {
	r.view = e.causeView(r)
	r.matching = plan.Matching(log.FromContext(ctx), &e.Handlers, r.view, r.subject())
	if len(r.matching) > 0 {
		return
	}
	if r.cause.Reason.HasHandlers() && r.cause.Reason != cause.Delete {
		r.cause.Reason = cause.Noop
	}
	r.cause.StalePin = r.cause.StalePin || e.Pin.Fetch(r.before) != nil
}
