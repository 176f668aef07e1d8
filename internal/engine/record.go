package engine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// correct makes good for a server that has altered what handlers have changed (it has dropped an
// unknown field, say): else the difference would be an update, again and again.
func (e *Engine) storeCorrection(ctx context.Context, r *reconciliation, theirs patch.MergePatch) error {
	if !e.mergeStored(ctx, r, theirs) {
		return nil
	}
	tx, err := e.builder.BuildCorrection(r.before, r.content, &r.cause, r.isFinished())
	if err != nil {
		return err
	}
	e.warnBaselineTooLarge(ctx, r, tx)
	change := tx.Change
	change.FrameworkPatch, r.triesOverlay = r.withOverlay(change.FrameworkPatch)
	written, err := e.send(ctx, r, change)
	if isRejected(err) && len(change.FrameworkPatch) > 0 {
		written, err = r.before, e.keepInMemory(ctx, r, change, err)
	}
	if err != nil || written == nil {
		return err
	}
	e.dropOverlay(ctx, r)
	e.noteBaseline(r, tx.Stored)
	return r.setBase(written)
}

// observe merges the changes of handlers into the cause as the server has stored them, and reports whether they differ from what was sent.
func (e *Engine) mergeStored(ctx context.Context, r *reconciliation, theirs patch.MergePatch) (differs bool) {
	if len(r.matching) == 0 {
		return false
	}
	r.cause, differs = e.detector.MergeStored(r.cause, r.content, theirs, log.FromContext(ctx))
	return differs
}

// warnBaselineTooLarge reports, once for each object, that the object has no room for its last-handled configuration.
func (e *Engine) warnBaselineTooLarge(ctx context.Context, r *reconciliation, tx commit.Transaction) {
	if !tx.BaselineTooLarge || r.known.Worker.LoggedTooLarge {
		return
	}
	r.known.Worker.LoggedTooLarge = true
	const note = "The object is too large for its last-handled configuration: " +
		"changes are detected, but handlers do not receive the old state"
	log.FromContext(ctx).Info("Warning: " + note)
	if e.Events != EventsOff {
		e.post(r.before, true, "Warning", "BaselineTooLarge", "Handle", note)
	}
}

// keeps remembers the baseline that was written.
func (e *Engine) noteBaseline(r *reconciliation, stored []byte) {
	if stored == nil {
		return
	}
	r.known.Worker.Baselines = r.known.Worker.Baselines.With(stored, e.Baseline.Fetch(r.before))
	r.known.Worker.PausesAtBaseline = e.pauses.Load()
	e.states.NoteStoredBaseline(r.before.GetUID(), stored)
}
