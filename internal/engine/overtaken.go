package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// overtaken reports whether others have gone on with the object during a pause, so that what could not be written before
// it is void: they have a record of their own, or have changed what was to be changed. The cycle then goes on from what they
// have made of the object, as it would after a crash. It asks the API server: the cache may not have seen their last write.
func (e *Engine) changedDuringPause(ctx context.Context, r, unwritten *reconciliation) (bool, error) {
	if unwritten.pauses == e.pauses.Load() {
		return false, nil
	}
	live, err := e.readObject(ctx, e.APIReader, client.ObjectKeyFromObject(r.before))
	if err != nil || live == nil || live.GetUID() != r.before.GetUID() {
		return false, err // if it is gone, the write will find that out
	}
	content, err := patch.Content(live)
	if err != nil || e.isUnchangedSince(unwritten, content) {
		unwritten.pauses, unwritten.suspensions = e.pauses.Load(), r.suspensions
		return false, err
	}
	log.FromContext(ctx).Info("Dropped the pending write from before the pause: another client has changed the object")
	r.known.Worker.PendingWrite = nil
	r.known.Worker.Handled = r.known.Worker.Handled || unwritten.isFinished() // the process has resumed the object all the same
	for _, s := range unwritten.handlerPatches {
		if s.reconcileHandler != nil {
			s.reconcileHandler.dirty = true
		}
	}
	r.known.SetAwaitedVersion(live.GetResourceVersion(), consistencyTimeout)
	return true, r.setBase(live)
}

// isAsLeft reports whether an object has the records that it had when the handlers were called, and where they have changed
// it, what it had, or what they want it to have.
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

// isUntouched reports whether an object has what it had before, or what a change wants it to have, where the change is made.
func isUntouched(change patch.MergePatch, before, content map[string]any) bool {
	left := change.Unapplied(content)
	return diff.Equal(map[string]any(left.CurrentValues(content)), map[string]any(left.CurrentValues(before)))
}

// ours is what of an object the framework has written: records, the baseline, the pin.
func (e *Engine) frameworkPart(content map[string]any) map[string]any {
	without := runtime.DeepCopyJSON(content)
	for _, cleaner := range e.detector.Essence.Cleaners {
		cleaner.Clear(without)
	}
	return patch.Diff(without, content)
}

// isEmpty reports whether there is nothing in a value, however deep: whoever takes the last record out may leave its place behind.
func isEmpty(value any) bool {
	fields, isMap := value.(map[string]any)
	for _, field := range fields {
		if !isEmpty(field) {
			return false
		}
	}
	return isMap || value == nil
}
