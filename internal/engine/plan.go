package engine

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/causation"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// plan reads how far the handlers are, and picks those to call in this pass.
func (e *Engine) plan(ctx context.Context, c *cycle) {
	logger := log.FromContext(ctx)
	state, err := progress.Load(e.Store, c.before, e.Handlers.IDs())
	if err != nil {
		metrics.Unreadable.WithLabelValues(e.Name).Inc()
		logger.Info("Warning: stored progress is unreadable and taken as absent", "error", err.Error())
	}
	c.state = state
	if !c.reason.Handled() {
		return
	}
	now := time.Now()
	for purpose, sum := range state.Begin(string(c.reason), c.selected, now) {
		logger.Info("A cause was superseded before it was handled", "cause", purpose, "by", c.reason,
			"succeeded", sum.Succeeded, "failed", sum.Failed, "left", sum.Left)
	}
	c.planned = e.Lifecycle(state, state.Due(now))
	if c.reason == causation.Delete {
		c.memory.Farewelled = true // the optional ones are called with the others
	}
}
