package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// writeTimeout limits one write. It is the only limit for the writes of an operator that is stopping.
const writeTimeout = 10 * time.Second

// writeOutcomes writes the outcomes of the reconcile. If the cause is over, the write removes the records and stores the baseline.
func (e *Engine) writeOutcomes(ctx context.Context, r *reconciliation) error {
	if r.cause.Reason == cause.Free {
		e.callOptionalDelete(ctx, r)
	}
	e.reportConditions(ctx, r)
	leftovers := r.cause.Reason == cause.Noop && (r.cause.StalePin || r.cause.OutdatedBaseline || r.leaving || r.retriesOverlay || r.state.HasStale(now()))
	if !r.cause.Reason.HasHandlers() && !leftovers && len(r.handlerPatches) == 0 {
		e.flushEvents(r)
		return nil
	}
	r.runEnded = true
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

// write sends all changes since the last write: those of handlers and those of the framework. It sends nothing if the object has all of them already. It
// returns the object after the write; nil if the object no longer exists. If the write fails, the next reconcile begins with it.
func (e *Engine) write(ctx context.Context, r *reconciliation) (client.Object, error) {
	wasOverlaid := r.known.Worker.Overlay != nil
	if r.isolation != nil {
		if err := e.continueIsolation(ctx, r); err != nil {
			return nil, err
		}
	}
	if r.change == nil {
		tx, err := e.build(ctx, r)
		if err != nil {
			return nil, err
		}
		before := r.before
		if err := e.pinAhead(ctx, r, tx.Change.HandlerPatch); err != nil {
			if !errors.Is(err, progress.ErrConflict) && !errors.Is(err, patch.ErrGone) {
				r.known.Worker.PendingWrite = r
			}
			return nil, fmt.Errorf("writing the object: %w", err)
		}
		if r.before != before {
			if tx, err = e.build(ctx, r); err != nil {
				return nil, err
			}
		}
		if r.reduced != nil {
			tx.Change.ResumeFrom(r.reduced)
			r.reduced = nil
		}
		r.change, r.handled, r.stored = tx.Change, tx.Handled, tx.Stored
	}
	written, err := e.send(ctx, r, r.change)
	concurrent, isConcurrent := errors.AsType[*patch.ConcurrentChangeError](err)
	switch {
	case isConcurrent:
		r.dropFields(ctx, concurrent.Fields)
		return e.write(ctx, r)
	case errors.Is(err, patch.ErrGone):
		r.known.Worker.PendingWrite, r.known.Worker.FoundDeleted, r.aborted = nil, true, true
		e.flushEvents(r)
		return nil, nil
	case isRejected(err) && len(r.revertPatch) > 0:
		if err := e.abandonRevert(ctx, r, err); err != nil {
			return nil, err
		}
		return e.write(ctx, r)
	case isRejected(err) && len(r.handlerPatches) > 0:
		if err := e.isolateRejected(ctx, r, err); err != nil {
			return nil, err
		}
		return e.write(ctx, r)
	case errors.Is(err, progress.ErrConflict):
		return nil, err
	case isRejected(err) && len(r.change.FrameworkPatch) > 0 && e.Remote == nil:
		// Handlers and deletions do not wait until the API server accepts the framework's part.
		if err := e.keepInMemory(ctx, r, r.change, err); err != nil {
			return nil, err
		}
		if r.change.RemoveFinalizer != "" {
			return e.write(ctx, r)
		}
		written = nil
	case err != nil && r.giveUpPatches(ctx, err):
		return e.write(ctx, r)
	case err != nil:
		r.known.Worker.PendingWrite = r
		return nil, fmt.Errorf("writing the object: %w", err)
	}
	if written, err = e.afterWrite(ctx, r, written); err != nil || r.known.Worker.FinalizerRemoved || wasOverlaid == (r.known.Worker.Overlay != nil) {
		return written, err
	}
	if e.reportConditions(ctx, r); len(r.handlerPatches) > 0 { // the condition that reports the overlay
		return e.write(ctx, r)
	}
	return written, nil
}

// build builds the transaction for all changes since the last write.
func (e *Engine) build(ctx context.Context, r *reconciliation) (commit.Transaction, error) {
	if err := r.applyOverlay(); err != nil {
		return commit.Transaction{}, err
	}
	e.reportConditions(ctx, r)
	patches := make([]commit.HandlerPatch, len(r.handlerPatches))
	for i, s := range r.handlerPatches {
		patches[i] = commit.HandlerPatch{Patch: s.doc, Untyped: s.untyped}
	}
	tx, err := e.builder.Build(commit.Input{
		Object: r.before, Content: r.content, Cause: &r.cause, Progress: r.state, Finished: r.isFinished(), Unmatched: len(r.matching) == 0,
		Leaving: r.leaving, Edited: r.edited, Patches: patches, Revert: r.revertPatch, Now: now(),
	})
	if err != nil {
		return tx, err
	}
	e.warnBaselineTooLarge(ctx, r, tx)
	tx.Change.FrameworkPatch, r.triesOverlay = r.addOverlay(tx.Change.FrameworkPatch)
	return tx, nil
}

// dropFields removes fields that another client has changed from the pending changes. The handled essence is then computed without them, so that
// the change of the other client is an update.
func (r *reconciliation) dropFields(ctx context.Context, fields patch.MergePatch) {
	r.reduced, r.change = dropOverwrittenFields(ctx, r.change, fields), nil
	for _, s := range r.handlerPatches {
		s.doc = s.doc.WithoutOverwritten(fields, r.content)
	}
	r.revertPatch = r.revertPatch.WithoutOverwritten(fields, r.content)
}

// dropOverwrittenFields returns a change without fields that another client has changed while the outcome of an earlier request was unknown.
func dropOverwrittenFields(ctx context.Context, change *patch.Change, fields patch.MergePatch) *patch.Change {
	log.FromContext(ctx).Info("Dropped changes of handlers: another client has changed the same fields while the outcome of the write was unknown",
		"fields", fields.Paths())
	out := &patch.Change{Before: change.Before, Content: change.Content, HandlerPatch: change.HandlerPatch.WithoutOverwritten(fields, change.Content), ReadUntyped: change.ReadUntyped}
	out.ResumeFrom(change)
	return out
}

// releaseTries is the number of attempts to write other changes together with the removal of the finalizer.
const releaseTries = 5

// giveUpPatches drops all other changes if they prevent the removal of the finalizer: no object is held because of them.
func (r *reconciliation) giveUpPatches(ctx context.Context, writeErr error) bool {
	r.writeFailures++
	if r.change.RemoveFinalizer == "" || r.writeFailures < releaseTries || len(r.change.HandlerPatch)+len(r.change.FrameworkPatch) == 0 {
		return false
	}
	log.FromContext(ctx).Error(writeErr, "Failed to write the other changes repeatedly; only the finalizer is removed")
	r.change.HandlerPatch, r.change.FrameworkPatch, r.stored = nil, nil, nil
	return true
}

// afterWrite continues the reconcile with the object that the API server has stored.
func (e *Engine) afterWrite(ctx context.Context, r *reconciliation, written client.Object) (client.Object, error) {
	change, handlerPatch := r.change, r.change.HandlerPatch
	base, patches := r.content, r.handlerPatches
	for _, s := range r.handlerPatches {
		e.reportDropped(ctx, change, s.id, s.doc)
	}
	if a := r.known.Worker.Background; a != nil && len(handlerPatch) > 0 {
		version := r.before.GetResourceVersion()
		if written != nil {
			version = written.GetResourceVersion()
		}
		a.noteWorkerWrite(essence.DigestOf(r.cause.Live), essence.DigestOf(e.detector.Essence.Build(handlerPatch.Apply(r.content))), version)
	}
	e.dropOverlay(ctx, r)
	r.forgetStoredEdits(r.mergedEdits)
	r.mergedEdits = nil
	r.known.Worker.PendingWrite, r.change = nil, nil
	if r.isFinished() {
		r.known.Worker.Handled = true
	}
	r.edited = r.edited || len(handlerPatch) > 0
	r.cause = e.detector.AfterWrite(r.cause, r.content, r.handled, handlerPatch)
	e.noteBaseline(r, r.stored)
	r.stored = nil
	r.handlerPatches, r.revertPatch, r.workTime, r.unsaved = nil, nil, 0, false
	e.flushEvents(r)
	if written == nil {
		return r.before, r.setBase(r.before)
	}
	content, err := change.ContentOf(written)
	if err != nil {
		return nil, err
	}
	if err := r.setConverted(written, content); err != nil {
		return nil, err
	}
	e.noteOwnChanges(r, base, patches...)
	if !change.Recovered { // otherwise the object may contain changes of other clients
		if err := e.storeCorrection(ctx, r, handlerPatch); err != nil {
			return nil, err
		}
	}
	r.cause.Live = e.detector.Essence.Build(r.content) // other clients may have edited the object
	return written, nil
}

// storeCorrection stores the baseline again if the API server has altered the changes of handlers, for example by dropping an unknown field.
// Otherwise the difference would be an update, again and again.
func (e *Engine) storeCorrection(ctx context.Context, r *reconciliation, handlerPatch patch.MergePatch) error {
	if !e.mergeStored(ctx, r, handlerPatch) {
		return nil
	}
	tx, err := e.builder.BuildCorrection(r.before, r.content, &r.cause, r.isFinished())
	if err != nil {
		return err
	}
	e.warnBaselineTooLarge(ctx, r, tx)
	change := tx.Change
	change.FrameworkPatch, r.triesOverlay = r.addOverlay(change.FrameworkPatch)
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

// mergeStored merges the changes of handlers into the cause as the API server has stored them, and reports whether they differ from the changes that
// were sent.
func (e *Engine) mergeStored(ctx context.Context, r *reconciliation, handlerPatch patch.MergePatch) (differs bool) {
	if len(r.matching) == 0 {
		return false
	}
	r.cause, differs = e.detector.MergeStored(r.cause, r.content, handlerPatch, log.FromContext(ctx))
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

// pinAhead stores the pin before a request that changes essential fields of the status. A later request stores the records and the baseline. If the
// process ended between the two without a pin, the next process would take the new status for the state to handle: handlers for the old state would
// no longer match, and handlers for the new state would not be called.
func (e *Engine) pinAhead(ctx context.Context, r *reconciliation, changed patch.MergePatch) error {
	if !e.HasStatus || r.gone || r.known.Worker.Overlay != nil || r.cause.PinnedDigest != "" || r.cause.Reason != cause.Create && r.cause.Reason != cause.Update {
		return nil
	}
	isPinned := e.Pin.Fetch(r.before) != nil && !r.cause.StalePin
	status, ok := changed["status"]
	if !ok || isPinned || e.keepsEssence(r.content, patch.MergePatch{"status": status}) {
		return nil
	}
	change, err := e.builder.BuildPin(r.before, r.content, &r.cause)
	if err != nil {
		return fmt.Errorf("pinning the object: %w", err)
	}
	written, err := e.send(ctx, r, change)
	switch {
	case isRejected(err):
		log.FromContext(ctx).Info("Cannot pin the object before its status changes: after a crash, handlers may not match any more", "error", err.Error())
		return nil
	case err != nil || written == nil:
		return err
	}
	return r.continueFrom(written)
}

// keepsEssence reports whether a change of the status leaves the essence as it is.
func (e *Engine) keepsEssence(content map[string]any, status patch.MergePatch) bool {
	if len(e.Fields)+len(e.Conditions) == 0 {
		return true
	}
	return !e.detector.AffectsEssence(content, status)
}

// send sends a change. An operator that is stopping still writes.
func (e *Engine) send(ctx context.Context, r *reconciliation, change *patch.Change) (client.Object, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if e.Remote == nil {
		return e.sendChange(ctx, r, change)
	}
	if r.conflicting { // the reconcile is based on progress that another operator has replaced
		return nil, progress.ErrConflict
	}
	written, err := e.sendAndSave(ctx, r, change)
	if r.conflicting = errors.Is(err, progress.ErrConflict); r.conflicting {
		e.dropConflicting(ctx, r)
	}
	return written, err
}

// sendChange sends a change to the API server, and records the resource version that the cache must show.
func (e *Engine) sendChange(ctx context.Context, r *reconciliation, change *patch.Change) (client.Object, error) {
	change.Allow = e.writeGuard(r)
	written, err := e.writer.Write(ctx, change)
	if len(e.ReconcileHandlers.IDs()) > 0 {
		r.known.OwnVersions = append(r.known.OwnVersions, change.WrittenVersions...)
		change.WrittenVersions = nil
	}
	if err != nil || written == nil {
		return nil, err
	}
	e.noteWritten(r, written)
	metrics.StoredBytes.WithLabelValues(e.Name).Observe(float64(commit.AnnotationsSize(written)))
	r.known.Worker.FinalizerRemoved = r.known.Worker.FinalizerRemoved || change.RemoveFinalizer != "" && r.cause.Facts.Deleting
	return written, nil
}

// noteWritten records the object of a response.
func (e *Engine) noteWritten(r *reconciliation, written client.Object) {
	e.identify(written)
	e.states.UpdateUnlessOlder(written)
	version := written.GetResourceVersion()
	if version == r.before.GetResourceVersion() {
		version = "" // there was no change, and there will be no event
	}
	r.known.SetAwaitedVersion(version, e.ConsistencyTimeout)
}
