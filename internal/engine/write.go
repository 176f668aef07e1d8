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
func (e *Engine) write(ctx context.Context, c *cycle) (client.Object, error) {
	wasOverlaid := c.memory.Worker.Overlay != nil
	if c.sorting != nil {
		if err := e.sortRest(ctx, c); err != nil {
			return nil, err
		}
	}
	if c.change == nil {
		tx, err := e.build(ctx, c)
		if err != nil {
			return nil, err
		}
		before := c.before
		if err := e.pinAhead(ctx, c, tx.Change.HandlerPatch); err != nil {
			return nil, err
		}
		if c.before != before {
			if tx, err = e.build(ctx, c); err != nil {
				return nil, err
			}
		}
		if c.reduced != nil {
			tx.Change.ResumeFrom(c.reduced)
			c.reduced = nil
		}
		c.change, c.handled, c.stored = tx.Change, tx.Handled, tx.Stored
	}
	written, err := e.send(ctx, c, c.change)
	concurrent, isConcurrent := errors.AsType[*patch.ConcurrentChangeError](err)
	switch {
	case isConcurrent:
		c.reduce(ctx, concurrent.Fields)
		return e.write(ctx, c)
	case errors.Is(err, patch.ErrGone):
		c.memory.Worker.PendingWrite, c.memory.Worker.FoundDeleted, c.stopped = nil, true, true
		e.spread(c)
		return nil, nil
	case refused(err) && len(c.undo) > 0:
		if err := e.leave(ctx, c, err); err != nil {
			return nil, err
		}
		return e.write(ctx, c)
	case refused(err) && len(c.shares) > 0:
		if err := e.sort(ctx, c, err); err != nil {
			return nil, err
		}
		return e.write(ctx, c)
	case refused(err) && len(c.change.FrameworkPatch) > 0:
		// Neither handlers nor a deletion wait until the server accepts our part.
		if err := e.reject(ctx, c, c.change, err); err != nil {
			return nil, err
		}
		if c.change.RemoveFinalizer != "" {
			return e.write(ctx, c)
		}
		written = nil
	case err != nil && c.releasesAlone(ctx, err):
		return e.write(ctx, c)
	case err != nil:
		c.memory.Worker.PendingWrite = c
		return nil, fmt.Errorf("writing the object: %w", err)
	}
	if written, err = e.wrote(ctx, c, written); err != nil || c.memory.Worker.FinalizerRemoved || wasOverlaid == (c.memory.Worker.Overlay != nil) {
		return written, err
	}
	if e.report(ctx, c); len(c.shares) > 0 { // the condition of the overlay
		return e.write(ctx, c)
	}
	return written, nil
}

// reduce drops fields from what is to be written: another client has changed them. What has been handled is then computed
// anew, without them, so that the change of the other client is an update.
func (c *cycle) reduce(ctx context.Context, fields patch.MergePatch) {
	c.reduced, c.change = reduced(ctx, c.change, fields), nil
	for _, s := range c.shares {
		s.doc = s.doc.WithoutOverwritten(fields, c.content)
	}
	c.undo = c.undo.WithoutOverwritten(fields, c.content)
}

// reduced returns a change without fields that another client has changed while the outcome of an earlier request was unknown.
func reduced(ctx context.Context, change *patch.Change, fields patch.MergePatch) *patch.Change {
	log.FromContext(ctx).Info("Dropped changes of handlers: another client has changed the same fields while the outcome of the write was unknown",
		"fields", fields.Paths())
	out := &patch.Change{Before: change.Before, Content: change.Content, HandlerPatch: change.HandlerPatch.WithoutOverwritten(fields, change.Content), ReadUntyped: change.ReadUntyped}
	out.ResumeFrom(change)
	return out
}

// releaseTries is how often it is tried to write what else there is with the removal of the finalizer.
const releaseTries = 5

// releasesAlone gives up what else was to be written, if that keeps failing: no object is held because of that (B-31).
func (c *cycle) releasesAlone(ctx context.Context, fault error) bool {
	c.faults++
	if c.change.RemoveFinalizer == "" || c.faults < releaseTries || len(c.change.HandlerPatch)+len(c.change.FrameworkPatch) == 0 {
		return false
	}
	log.FromContext(ctx).Error(fault, "What else was to be written of the object keeps failing; it is only released")
	c.change.HandlerPatch, c.change.FrameworkPatch, c.stored = nil, nil, nil
	return true
}

// wrote goes on from what the server has made of a write.
func (e *Engine) wrote(ctx context.Context, c *cycle, written client.Object) (client.Object, error) {
	theirs, recovered := c.change.HandlerPatch, c.change.Recovered
	for _, s := range c.shares {
		e.reportDropped(ctx, c.change, s.id, s.doc)
	}
	if a, ok := c.memory.Worker.Background, c.memory.Worker.Background != nil; ok && len(theirs) > 0 {
		version := c.before.GetResourceVersion()
		if written != nil {
			version = written.GetResourceVersion()
		}
		a.made(essence.DigestOf(c.cause.Live), essence.DigestOf(e.detector.Essence.Build(theirs.Apply(c.content))), version)
	}
	e.accept(ctx, c)
	c.dropEdits(c.absorbed)
	c.absorbed = nil
	c.memory.Worker.PendingWrite, c.change = nil, nil
	if c.closed() {
		c.memory.Worker.Handled = true
		e.reportLoops(ctx, c)
	}
	c.edited = c.edited || len(theirs) > 0
	c.cause = e.detector.AfterWrite(c.cause, c.content, c.handled, theirs)
	e.keeps(c, c.stored)
	c.stored = nil
	c.shares, c.undo, c.worked, c.unsaved = nil, nil, 0, false
	e.spread(c)
	if written == nil {
		return c.before, c.begin(c.before)
	}
	if err := c.begin(written); err != nil {
		return nil, err
	}
	if !recovered { // else it may show changes of other clients
		if err := e.correct(ctx, c, theirs); err != nil {
			return nil, err
		}
	}
	c.cause.Live = e.detector.Essence.Build(c.content) // others may have edited it meanwhile
	return written, nil
}

// send is the only way to the writer. It remembers the version, for the cache to catch up with. A
// stopping operator still writes what its handlers have done.
func (e *Engine) send(ctx context.Context, c *cycle, change *patch.Change) (client.Object, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	change.Allow = e.allow(c)
	written, err := e.writer.Write(ctx, change)
	if len(e.ReconcileHandlers.IDs()) > 0 {
		c.memory.OwnVersions = append(c.memory.OwnVersions, change.WrittenVersions...)
		change.WrittenVersions = nil
	}
	if err != nil || written == nil {
		return nil, err
	}
	e.note(c, written)
	metrics.StoredBytes.WithLabelValues(e.Name).Observe(float64(commit.AnnotationsSize(written)))
	c.memory.Worker.FinalizerRemoved = c.memory.Worker.FinalizerRemoved || change.RemoveFinalizer != "" && c.cause.Facts.Deleting
	return written, nil
}

// note takes in what a write has made of the object.
func (e *Engine) note(c *cycle, written client.Object) {
	e.identify(written)
	e.states.UpdateUnlessOlder(written)
	version := written.GetResourceVersion()
	if version == c.before.GetResourceVersion() {
		version = "" // nothing has changed: no event will tell
	}
	c.memory.SetAwaitedVersion(version, patience)
}

// build builds the transaction for all that has changed since the last write.
func (e *Engine) build(ctx context.Context, c *cycle) (commit.Transaction, error) {
	if err := c.applyOverlay(); err != nil {
		return commit.Transaction{}, err
	}
	e.report(ctx, c)
	patches := make([]commit.HandlerPatch, len(c.shares))
	for i, s := range c.shares {
		patches[i] = commit.HandlerPatch{Patch: s.doc, Untyped: s.raw}
	}
	tx, err := e.builder.Build(commit.Input{
		Object: c.before, Content: c.content, Cause: &c.cause, Progress: c.state, Finished: c.closed(), Unmatched: len(c.matching) == 0,
		Leaving: c.parting, Edited: c.edited, Patches: patches, Revert: c.undo, Now: now(),
	})
	if err != nil {
		return tx, err
	}
	e.warnBaselineTooLarge(ctx, c, tx)
	tx.Change.FrameworkPatch, c.triesOverlay = c.withOverlay(tx.Change.FrameworkPatch)
	return tx, nil
}

// nested puts values below a path of fields.
func nested(path []string, values map[string]any) patch.MergePatch {
	for _, field := range slices.Backward(path) {
		values = map[string]any{field: values}
	}
	return values
}
