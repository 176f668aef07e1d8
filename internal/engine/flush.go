package engine

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// flusher writes what a handler has changed in the status until now. It is part of the pass like any other change:
// what follows is counted from there.
func (e *Engine) newFlush(r *reconciliation, call *invoke.Request) func(context.Context) error {
	if r.gone {
		return nil
	}
	return func(ctx context.Context) error {
		own, doc, err := e.flushableChanges(ctx, r, call)
		if len(own) == 0 || err != nil {
			return err
		}
		if len(doc) == 0 { // the object has these values already
			r.dropSuperseded(own)
			r.needsRebase = true // the handler goes on from its own values
			return e.applyChanges(r, own)
		}
		if e.ended.Load() {
			return errEnded
		}
		if err := e.awaitFenceUnchanged(ctx, r, func(content map[string]any) bool { return e.isUnchangedSince(r, content) }); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		if err := e.pinAhead(ctx, r, doc); err != nil {
			return err
		}
		if own, doc, err = e.flushableChanges(ctx, r, call); err != nil {
			return err
		}
		change := &patch.Change{Before: r.before, Content: r.content, HandlerPatch: doc, Allow: e.writeGuard(r)}
		written, err := e.writer.Write(ctx, change)
		if len(e.ReconcileHandlers.IDs()) > 0 {
			r.known.OwnVersions = append(r.known.OwnVersions, change.WrittenVersions...)
		}
		if err != nil || written == nil {
			return err
		}
		e.reportDropped(ctx, change, call.ID, doc)
		// It is handled with the rest of what the handler changes.
		r.cause, r.edited = e.detector.MergeFlushed(r.cause, r.content, doc), true
		return e.continueAfterFlush(r, own, written)
	}
}

// backgroundFlusher is that of background work, which has no pass.
func (e *Engine) newBackgroundFlush(r *reconciliation, call *invoke.Request, a *backgroundState) func(context.Context) error {
	return func(ctx context.Context) error {
		own, doc, err := e.flushableChanges(ctx, r, call)
		if len(doc) == 0 || err != nil {
			return err
		}
		needsRebase := &reconciliation{known: r.known, before: r.before, content: r.content, grace: r.grace, suspensions: r.suspensions}
		if err := e.writeBackground(ctx, needsRebase, call.ID, doc, a, false); err != nil || needsRebase.written == nil {
			return err
		}
		return e.continueAfterFlush(r, own, needsRebase.written)
	}
}

// unflushed is what a handler has changed in the status since it was called, or since the last time: to its own copy, and
// to the object as it is by now.
func (e *Engine) flushableChanges(ctx context.Context, r *reconciliation, call *invoke.Request) (own, doc patch.MergePatch, err error) {
	changed, err := e.handlerChanges(ctx, r, call.ID, call.Object)
	status, ok := changed["status"]
	if !ok || err != nil {
		return nil, nil, err
	}
	own = patch.MergePatch{"status": status}
	return own, r.rebased(own).Unapplied(r.content), nil
}

// fitted makes a change of what handlers were shown one of the object as it was written while one was at work.
func (r *reconciliation) rebased(doc patch.MergePatch) patch.MergePatch {
	if !r.needsRebase {
		return doc
	}
	written := r.content
	for _, s := range r.handlerPatches { // they are ahead of it
		written = s.doc.Apply(written)
	}
	return doc.Rebase(r.current, written)
}

// supersede removes from the pending changes of earlier handlers the fields that a Flush has written: the handler that
// flushed has seen these changes, and its values replace them.
func (r *reconciliation) dropSuperseded(continueAfterFlush patch.MergePatch) {
	for _, s := range r.handlerPatches {
		s.doc = s.doc.WithoutOverwritten(continueAfterFlush, r.content)
	}
	r.handlerPatches = slices.DeleteFunc(r.handlerPatches, func(s *handlerPatch) bool { return len(s.doc) == 0 })
}

// flushed goes on from a state of the object that was written while a handler is at work. To the handler, only its own
// change has been made.
func (e *Engine) continueAfterFlush(r *reconciliation, own patch.MergePatch, written client.Object) error {
	e.identify(written)
	if err := e.applyChanges(r, own); err != nil {
		return err
	}
	e.states.UpdateUnlessOlder(written)
	r.known.SetAwaitedVersion(written.GetResourceVersion(), consistencyTimeout)
	r.dropSuperseded(own)
	return r.continueFrom(written)
}
