package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// writeTimeout is how long one write may take. It is the only limit of the writes that are still to
// be made when the operator is stopping.
const writeTimeout = 10 * time.Second

// write sends all that has changed since the last write, ours and the handlers'. It returns the object
// as it is then; nil if it is gone. What cannot be written now is kept, for the next pass to begin with.
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
			return nil, err
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
		r.known.Worker.PendingWrite, r.known.Worker.FoundDeleted, r.stopped = nil, true, true
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
	case isRejected(err) && len(r.change.FrameworkPatch) > 0:
		// Neither handlers nor a deletion wait until the server accepts our part.
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
	if e.reportConditions(ctx, r); len(r.handlerPatches) > 0 { // the condition of the overlay
		return e.write(ctx, r)
	}
	return written, nil
}

// reduce drops fields from what is to be written: another client has changed them. What has been handled is then computed
// anew, without them, so that the change of the other client is an update.
func (r *reconciliation) dropFields(ctx context.Context, fields patch.MergePatch) {
	r.reduced, r.change = withoutFields(ctx, r.change, fields), nil
	for _, s := range r.handlerPatches {
		s.doc = s.doc.WithoutOverwritten(fields, r.content)
	}
	r.revertPatch = r.revertPatch.WithoutOverwritten(fields, r.content)
}

// reduced returns a change without fields that another client has changed while the outcome of an earlier request was unknown.
func withoutFields(ctx context.Context, change *patch.Change, fields patch.MergePatch) *patch.Change {
	log.FromContext(ctx).Info("Dropped changes of handlers: another client has changed the same fields while the outcome of the write was unknown",
		"fields", fields.Paths())
	out := &patch.Change{Before: change.Before, Content: change.Content, HandlerPatch: change.HandlerPatch.WithoutOverwritten(fields, change.Content), ReadUntyped: change.ReadUntyped}
	out.ResumeFrom(change)
	return out
}

// releaseTries is how often it is tried to write what else there is with the removal of the finalizer.
const releaseTries = 5

// releasesAlone gives up what else was to be written, if that keeps failing: no object is held because of that (B-31).
func (r *reconciliation) giveUpPatches(ctx context.Context, writeErr error) bool {
	r.writeFailures++
	if r.change.RemoveFinalizer == "" || r.writeFailures < releaseTries || len(r.change.HandlerPatch)+len(r.change.FrameworkPatch) == 0 {
		return false
	}
	log.FromContext(ctx).Error(writeErr, "What else was to be written of the object keeps failing; it is only released")
	r.change.HandlerPatch, r.change.FrameworkPatch, r.stored = nil, nil, nil
	return true
}

// wrote goes on from what the server has made of a write.
func (e *Engine) afterWrite(ctx context.Context, r *reconciliation, written client.Object) (client.Object, error) {
	theirs, recovered := r.change.HandlerPatch, r.change.Recovered
	for _, s := range r.handlerPatches {
		e.reportDropped(ctx, r.change, s.id, s.doc)
	}
	if a, ok := r.known.Worker.Background, r.known.Worker.Background != nil; ok && len(theirs) > 0 {
		version := r.before.GetResourceVersion()
		if written != nil {
			version = written.GetResourceVersion()
		}
		a.noteWorkerWrite(essence.DigestOf(r.cause.Live), essence.DigestOf(e.detector.Essence.Build(theirs.Apply(r.content))), version)
	}
	e.dropOverlay(ctx, r)
	r.dropEdits(r.mergedEdits)
	r.mergedEdits = nil
	r.known.Worker.PendingWrite, r.change = nil, nil
	if r.isFinished() {
		r.known.Worker.Handled = true
		e.reportLoops(ctx, r)
	}
	r.edited = r.edited || len(theirs) > 0
	r.cause = e.detector.AfterWrite(r.cause, r.content, r.handled, theirs)
	e.noteBaseline(r, r.stored)
	r.stored = nil
	r.handlerPatches, r.revertPatch, r.workTime, r.unsaved = nil, nil, 0, false
	e.flushEvents(r)
	if written == nil {
		return r.before, r.setBase(r.before)
	}
	if err := r.setBase(written); err != nil {
		return nil, err
	}
	if !recovered { // else it may show changes of other clients
		if err := e.storeCorrection(ctx, r, theirs); err != nil {
			return nil, err
		}
	}
	r.cause.Live = e.detector.Essence.Build(r.content) // others may have edited it meanwhile
	return written, nil
}

// send is the only way to the writer. It remembers the version, for the cache to catch up with. A
// stopping operator still writes what its handlers have done.
func (e *Engine) send(ctx context.Context, r *reconciliation, change *patch.Change) (client.Object, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
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

// note takes in what a write has made of the object.
func (e *Engine) noteWritten(r *reconciliation, written client.Object) {
	e.identify(written)
	e.states.UpdateUnlessOlder(written)
	version := written.GetResourceVersion()
	if version == r.before.GetResourceVersion() {
		version = "" // nothing has changed: no event will tell
	}
	r.known.SetAwaitedVersion(version, consistencyTimeout)
}

// build builds the transaction for all that has changed since the last write.
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
	tx.Change.FrameworkPatch, r.triesOverlay = r.withOverlay(tx.Change.FrameworkPatch)
	return tx, nil
}

// nested puts values below a path of fields.
func nested(path []string, values map[string]any) patch.MergePatch {
	for _, field := range slices.Backward(path) {
		values = map[string]any{field: values}
	}
	return values
}
