package engine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// correct makes good for a server that has altered what handlers have changed (it has dropped an
// unknown field, say): else the difference would be an update, again and again.
func (e *Engine) correct(ctx context.Context, c *cycle, theirs patch.MergePatch) error {
	if !e.observe(ctx, c, theirs) {
		return nil
	}
	tx, err := e.builder.BuildCorrection(c.before, c.content, &c.cause, c.closed())
	if err != nil {
		return err
	}
	e.warnBaselineTooLarge(ctx, c, tx)
	change := tx.Change
	change.FrameworkPatch, c.triesOverlay = c.withOverlay(change.FrameworkPatch)
	written, err := e.send(ctx, c, change)
	if refused(err) && len(change.FrameworkPatch) > 0 {
		written, err = c.before, e.reject(ctx, c, change, err)
	}
	if err != nil || written == nil {
		return err
	}
	e.accept(ctx, c)
	e.keeps(c, tx.Stored)
	return c.begin(written)
}

// observe merges the changes of handlers into the cause as the server has stored them, and reports whether they differ from what was sent.
func (e *Engine) observe(ctx context.Context, c *cycle, theirs patch.MergePatch) (differs bool) {
	if len(c.matching) == 0 {
		return false
	}
	c.cause, differs = e.detector.MergeStored(c.cause, c.content, theirs, log.FromContext(ctx))
	return differs
}

// warnBaselineTooLarge reports, once for each object, that the object has no room for its last-handled configuration.
func (e *Engine) warnBaselineTooLarge(ctx context.Context, c *cycle, tx commit.Transaction) {
	if !tx.BaselineTooLarge || c.memory.Worker.LoggedTooLarge {
		return
	}
	c.memory.Worker.LoggedTooLarge = true
	const note = "The object is too large for its last-handled configuration: " +
		"changes are detected, but handlers do not receive the old state"
	log.FromContext(ctx).Info("Warning: " + note)
	if e.Events != EventsOff {
		e.post(c.before, true, "Warning", "BaselineTooLarge", "Handle", note)
	}
}

// keeps remembers the baseline that was written.
func (e *Engine) keeps(c *cycle, stored []byte) {
	if stored == nil {
		return
	}
	c.memory.Worker.Baselines = c.memory.Worker.Baselines.With(stored, e.Baseline.Fetch(c.before))
	c.memory.Worker.PausesAtBaseline = e.pauses.Load()
	e.states.NoteStoredBaseline(c.before.GetUID(), stored)
}
