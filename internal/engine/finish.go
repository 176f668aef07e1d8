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
func (e *Engine) finish(ctx context.Context, r *reconciliation) error {
	if r.cause.Reason == cause.Free {
		e.callOptionalDelete(ctx, r)
	}
	e.reportConditions(ctx, r)
	leftovers := r.cause.Reason == cause.Noop && (r.cause.StalePin || r.cause.OutdatedBaseline || r.leaving || r.retriesOverlay || r.state.HasStale(now()))
	if !r.cause.Reason.HasHandlers() && !leftovers && len(r.handlerPatches) == 0 {
		e.flushEvents(r)
		return nil
	}
	r.callsDone = true
	r.waitsForBackground = r.cause.Reason == cause.Delete && e.supervisor.Busy(r.before.GetUID())
	if r.cause.Reason == cause.Resume && r.hasNothingToWrite() {
		r.known.Worker.Handled = true
		e.flushEvents(r)
		return nil
	}
	written, err := e.write(ctx, r)
	if err != nil || written == nil {
		return err
	}
	if r.isFinished() && len(r.selection.Selected) > 0 {
		sum := r.state.Summary()
		log.FromContext(ctx).Info("Handled", "reason", r.cause.Reason, "succeeded", sum.Succeeded, "failed", sum.Failed)
	}
	return nil
}

// idle reports whether there is nothing to write, and without a look at the object's content: at a start,
// that is so for most objects.
func (r *reconciliation) hasNothingToWrite() bool {
	_, delayed := r.state.StaleAfter(now())
	return len(r.selection.Selected)+len(r.handlerPatches) == 0 && !r.cause.OutdatedBaseline && !r.cause.StalePin && !r.retriesOverlay && !delayed && !r.state.HasStale(now())
}

// calm turns what is no fault into a quiet return: the object is gone, others keep writing it, or the
// server asks us to wait.
func classifyError(err error) (again time.Duration, writeErr error) {
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
