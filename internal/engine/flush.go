package engine

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// newFlush returns the function that writes the changes that a handler has made in the status so far. The rest of the reconcile is based on the result.
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
			r.needsRebase = true // the copy of the handler has its own values
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
		r.cause, r.edited = e.detector.MergeFlushed(r.cause, r.content, doc), true
		base := r.content
		if err := e.continueAfterFlush(r, own, written); err != nil {
			return err
		}
		e.noteOwnChanges(r, base, &handlerPatch{id: call.ID, doc: doc})
		return nil
	}
}

// newBackgroundFlush is [Engine.newFlush] for daemons and timers.
func (e *Engine) newBackgroundFlush(r *reconciliation, call *invoke.Request, a *backgroundState) func(context.Context) error {
	return func(ctx context.Context) error {
		own, doc, err := e.flushableChanges(ctx, r, call)
		if len(doc) == 0 || err != nil {
			return err
		}
		writing := &reconciliation{known: r.known, before: r.before, content: r.content, grace: r.grace, suspensions: r.suspensions}
		if err := e.writeBackground(ctx, writing, call.ID, doc, a, false); err != nil || writing.written == nil {
			return err
		}
		return e.continueAfterFlush(r, own, writing.written)
	}
}

// flushableChanges returns the changes in the status since the attempt began or since the last flush: relative to the copy of the handler, and relative
// to the present object.
func (e *Engine) flushableChanges(ctx context.Context, r *reconciliation, call *invoke.Request) (own, doc patch.MergePatch, err error) {
	changed, _, err := e.handlerChanges(ctx, r, call.ID, call.Object)
	status, ok := changed["status"]
	if !ok || err != nil {
		return nil, nil, err
	}
	own = patch.MergePatch{"status": status}
	return own, r.rebased(own).Unapplied(r.content), nil
}

// dropSuperseded removes the fields that a Flush has written from the pending changes of earlier handlers: the handler that flushed has received these
// changes, and its values replace them.
func (r *reconciliation) dropSuperseded(newer patch.MergePatch) {
	for _, s := range r.handlerPatches {
		s.doc = s.doc.WithoutOverwritten(newer, r.content)
	}
	r.handlerPatches = slices.DeleteFunc(r.handlerPatches, func(s *handlerPatch) bool { return len(s.doc) == 0 })
}

// continueAfterFlush bases the reconcile on a state of the object that was written while a handler is running. The handler sees only its own change.
func (e *Engine) continueAfterFlush(r *reconciliation, own patch.MergePatch, written client.Object) error {
	e.identify(written)
	if err := e.applyChanges(r, own); err != nil {
		return err
	}
	e.states.UpdateUnlessOlder(written)
	r.known.SetAwaitedVersion(written.GetResourceVersion(), e.ConsistencyTimeout)
	r.dropSuperseded(own)
	return r.continueFrom(written)
}
