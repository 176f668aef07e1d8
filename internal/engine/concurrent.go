package engine

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// retryPendingWrite writes the outcomes of an earlier reconcile whose write has failed. Its handlers are not called again. A deletion makes the pending
// write obsolete, and so do concurrent changes during a pause.
func (e *Engine) retryPendingWrite(ctx context.Context, r, unwritten *reconciliation) (time.Duration, error) {
	if r.before.GetDeletionTimestamp() != nil && unwritten.cause.Reason != cause.Delete {
		r.known.Worker.PendingWrite = nil
		return e.checkCacheIsCurrent(ctx, r)
	}
	if changedDuringPause, err := e.changedDuringPause(ctx, r, unwritten); changedDuringPause || err != nil {
		return 0, err
	}
	if written, err := e.write(ctx, unwritten); err != nil || written == nil {
		return e.ConsistencyTimeout, err // the object is deleted; the cache will show that
	}
	log.FromContext(ctx).Info("Wrote the pending changes of an earlier reconcile")
	return e.checkCacheIsCurrent(ctx, r)
}

// changedDuringPause reports whether another client has changed the object during a pause in a way that makes the pending write obsolete: it has stored
// other progress, or changed the same fields. The reconcile then continues with the object as it is, as after a crash. changedDuringPause reads the
// object from the API server, because the cache may lack the last write of the other client.
func (e *Engine) changedDuringPause(ctx context.Context, r, unwritten *reconciliation) (bool, error) {
	if unwritten.pauses == e.pauses.Load() {
		return false, nil
	}
	live, err := e.readObject(ctx, e.APIReader, client.ObjectKeyFromObject(r.before))
	if err != nil || live == nil || live.GetUID() != r.before.GetUID() {
		return false, err // if the object is deleted, the write will return that
	}
	content, err := patch.Content(live)
	if err != nil {
		return false, err
	}
	savedByOther, err := e.savedByOther(ctx, unwritten)
	if err != nil || !savedByOther && e.isUnchangedSince(unwritten, content) {
		unwritten.pauses, unwritten.suspensions = e.pauses.Load(), r.suspensions
		return false, err
	}
	log.FromContext(ctx).Info("Dropped the pending write from before the pause: another client has changed the object")
	r.known.Worker.PendingWrite = nil
	r.known.Worker.Handled = r.known.Worker.Handled || unwritten.isFinished() // resume handlers were called in any case
	for _, s := range unwritten.handlerPatches {
		if s.reconcileHandler != nil {
			s.reconcileHandler.dirty = true
		}
	}
	r.known.SetAwaitedVersion(live.GetResourceVersion(), e.ConsistencyTimeout)
	return true, r.setBase(live)
}

// isUnchangedSince reports whether an object has the records that it had when the handlers were called, and, in the fields that they have changed, the
// old or the new values.
func (e *Engine) isUnchangedSince(unwritten *reconciliation, content map[string]any) bool {
	if !e.sameFrameworkPart(unwritten.withoutOverlay(), content) {
		return false
	}
	var theirs patch.MergePatch
	for _, s := range unwritten.handlerPatches {
		theirs = patch.Merge(theirs, s.doc)
	}
	return isUntouched(theirs, unwritten.content, content)
}

// isUntouched reports whether the fields of a patch have their values from before, or the values of the patch.
func isUntouched(change patch.MergePatch, before, content map[string]any) bool {
	left := change.Unapplied(content)
	return diff.Equal(map[string]any(left.CurrentValues(content)), map[string]any(left.CurrentValues(before)))
}

// sameFrameworkPart reports whether two states of an object have the same records, baseline and pin.
func (e *Engine) sameFrameworkPart(one, other map[string]any) bool {
	for _, item := range diff.Of(e.frameworkPart(one), e.frameworkPart(other)) {
		if !isEmpty(item.Old) || !isEmpty(item.New) {
			return false
		}
	}
	return true
}

// frameworkPart returns the part of an object that the framework has written: records, baseline and pin.
func (e *Engine) frameworkPart(content map[string]any) map[string]any {
	return patch.Diff(e.withoutFrameworkPart(content), content)
}

func (e *Engine) withoutFrameworkPart(content map[string]any) map[string]any {
	without := runtime.DeepCopyJSON(content)
	for _, cleaner := range e.detector.Essence.Cleaners {
		cleaner.Clear(without)
	}
	return without
}

// isEmpty reports whether a value contains nothing but empty maps. Removing the last record may leave empty maps.
func isEmpty(value any) bool {
	fields, isMap := value.(map[string]any)
	for _, field := range fields {
		if !isEmpty(field) {
			return false
		}
	}
	return isMap || value == nil
}

// errChangedConcurrently means that another process has changed the object on which a write was based.
var errChangedConcurrently = errors.New("another process has changed the object since this one was suspended: nothing is written over that")

// suspensionCount returns the number of suspensions of the process.
func (e *Engine) suspensionCount() int64 {
	if e.Fence == nil {
		return 0
	}
	return e.Fence.SuspensionCount()
}

// waitForFence waits for the end of a hold after a suspension, and returns the number of suspensions until then.
func (e *Engine) waitForFence(ctx context.Context) (suspensions int64, err error) {
	if e.Fence == nil {
		return 0, nil
	}
	return e.Fence.Wait(ctx)
}

// writeGuard returns the check before each request: no request is sent that was computed before a suspension. The changes are compared with the
// object after the hold, as after a pause.
func (e *Engine) writeGuard(r *reconciliation) func() error {
	if e.Fence == nil {
		return nil
	}
	return func() error {
		if e.ended.Load() {
			return errEnded
		}
		if e.Fence.IsActive() || e.Fence.SuspensionCount() != r.suspensions {
			return fencing.ErrSuspended
		}
		return nil
	}
}

// awaitFenceUnchanged delays a write during an attempt of a handler until the end of a hold. If the process was suspended after the object was
// read, it checks on the API server that the object is as the write expects it.
func (e *Engine) awaitFenceUnchanged(ctx context.Context, r *reconciliation, isExpected func(content map[string]any) bool) error {
	suspensions, err := e.waitForFence(ctx)
	if err != nil || suspensions == r.suspensions {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	live, err := e.readObject(ctx, e.APIReader, client.ObjectKeyFromObject(r.before))
	switch {
	case err != nil:
		return err
	case live == nil || live.GetUID() != r.before.GetUID():
		return patch.ErrGone
	}
	content, err := patch.Content(live)
	if err != nil {
		return err
	}
	if !isExpected(content) {
		return errChangedConcurrently
	}
	r.suspensions = suspensions
	return nil
}
