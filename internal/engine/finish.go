package engine

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/causation"
	"github.com/kopf-runtime/kopf-runtime/internal/patching"
)

// finish records and writes what the pass has achieved. If the cause is over, its records go, and
// what was handled becomes what later changes are told from.
func (e *Engine) finish(ctx context.Context, c *cycle) error {
	switch {
	case c.reason.Handled():
		c.final = true
	case c.reason == causation.Noop && c.state.Retirable(now()):
		c.final = true // there is what a reverted cause has left
	case c.reason == causation.Free:
		e.farewell(ctx, c)
		return nil
	default:
		return nil
	}
	written, err := e.write(ctx, c)
	if err != nil || written == nil {
		return err
	}
	if c.closed() && len(c.selected) > 0 {
		sum := c.state.Summary()
		log.FromContext(ctx).Info("Handled", "reason", c.reason, "succeeded", sum.Succeeded, "failed", sum.Failed)
	}
	return nil
}

// calm turns what is no fault into a quiet return: the object is gone, or others keep writing it.
func calm(err error) (again time.Duration, fault error) {
	switch {
	case errors.Is(err, patching.ErrGone):
		return 0, nil
	case apierrors.IsConflict(err):
		return conflictPause, nil
	default:
		return 0, err
	}
}

const conflictPause = 100 * time.Millisecond
