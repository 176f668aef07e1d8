package engine

import (
	"context"
	"slices"

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
	state.Carry(string(c.reason), c.joining)
	at := now()
	for purpose, sum := range state.Begin(string(c.reason), c.selected, at) {
		logger.Info("A cause was superseded before it was handled", "cause", purpose, "by", c.reason,
			"succeeded", sum.Succeeded, "failed", sum.Failed, "left", sum.Left)
	}
	c.planned = chosen(e.Lifecycle, state, state.Due(at))
	if c.reason == causation.Delete {
		c.memory.Farewelled = true // the optional ones are called with the others
	}
}

// chosen asks the lifecycle, which may be anybody's: only what is due is called, and that once.
func chosen(lifecycle progress.Lifecycle, state *progress.State, due []string) []string {
	var out []string
	for _, id := range lifecycle(state, slices.Clone(due)) {
		if slices.Contains(due, id) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
