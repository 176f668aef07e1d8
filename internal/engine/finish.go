package engine

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// finish records and writes what the pass has achieved. If the cause is over, its records go, and
// what was handled becomes what later changes are told from.
func (e *Engine) finish(ctx context.Context, c *cycle) error {
	if c.cause.Reason == cause.Free {
		e.farewell(ctx, c)
	}
	e.report(ctx, c)
	leftovers := c.cause.Reason == cause.Noop && (c.cause.StalePin || c.cause.OutdatedBaseline || c.parting || c.retriesOverlay || c.state.HasStale(now()))
	if !c.cause.Reason.HasHandlers() && !leftovers && len(c.shares) == 0 {
		e.spread(c)
		return nil
	}
	c.final = true
	c.waits = c.cause.Reason == cause.Delete && e.supervisor.Busy(c.before.GetUID())
	if c.cause.Reason == cause.Resume && c.idle() {
		c.memory.Worker.Handled = true
		e.spread(c)
		return nil
	}
	written, err := e.write(ctx, c)
	if err != nil || written == nil {
		return err
	}
	if c.closed() && len(c.selection.Selected) > 0 {
		sum := c.state.Summary()
		log.FromContext(ctx).Info("Handled", "reason", c.cause.Reason, "succeeded", sum.Succeeded, "failed", sum.Failed)
	}
	return nil
}

// idle reports whether there is nothing to write, and without a look at the object's content: at a start,
// that is so for most objects.
func (c *cycle) idle() bool {
	_, delayed := c.state.StaleAfter(now())
	return len(c.selection.Selected)+len(c.shares) == 0 && !c.cause.OutdatedBaseline && !c.cause.StalePin && !c.retriesOverlay && !delayed && !c.state.HasStale(now())
}

// calm turns what is no fault into a quiet return: the object is gone, others keep writing it, or the
// server asks us to wait.
func calm(err error) (again time.Duration, fault error) {
	if errors.Is(err, patch.ErrGone) {
		return 0, nil
	}
	if errors.Is(err, fencing.ErrSuspended) {
		return time.Second, nil
	}
	if apierrors.IsConflict(err) {
		return conflictPause, nil
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 && apierrors.IsTooManyRequests(err) {
		return time.Duration(seconds) * time.Second, nil
	}
	return 0, err
}

const conflictPause = 100 * time.Millisecond
