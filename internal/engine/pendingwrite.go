package engine

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
)

// retryPendingWrite writes the outcomes of an earlier reconcile whose write has failed. The handlers of that reconcile are not called again. retryPendingWrite drops the
// pending write if the object is being deleted. It also drops the write if another client has changed the same fields or the progress during a pause.
func (e *Engine) retryPendingWrite(ctx context.Context, r *reconciliation, pending *commit.Session) (time.Duration, error) {
	if r.Base().GetDeletionTimestamp() != nil && pending.Cause.Reason != cause.Delete {
		r.Memory.Pending = nil
		return e.checkCacheIsCurrent(ctx, r)
	}
	live, err := pending.OvertakenBy(ctx, r.Suspensions)
	switch {
	case err != nil:
		return 0, err
	case live != nil: // the reconcile continues with the object as it is, as after a crash
		r.Memory.Pending = nil
		r.known.Worker.Handled = r.known.Worker.Handled || pending.IsFinished() // resume handlers were called in any case
		r.known.SetAwaitedVersion(live.GetResourceVersion(), e.ConsistencyTimeout)
		return 0, r.SetBase(live)
	}
	if written, err := pending.Write(ctx); err != nil || written == nil {
		return e.ConsistencyTimeout, err // the object is deleted; the cache will show that
	}
	log.FromContext(ctx).Info("Wrote the pending changes of an earlier reconcile")
	return e.checkCacheIsCurrent(ctx, r)
}
