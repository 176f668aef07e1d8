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
func (e *Engine) flusher(c *cycle, call *invoke.Request) func(context.Context) error {
	if c.gone {
		return nil
	}
	return func(ctx context.Context) error {
		own, doc, err := e.unflushed(ctx, c, call)
		if len(own) == 0 || err != nil {
			return err
		}
		if len(doc) == 0 { // the object has these values already
			c.supersede(own)
			c.apart = true // the handler goes on from its own values
			return e.show(c, own)
		}
		if e.closed.Load() {
			return errClosed
		}
		if err := e.awaitFence(ctx, c, func(content map[string]any) bool { return e.isAsLeft(c, content) }); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		if err := e.pinAhead(ctx, c, doc); err != nil {
			return err
		}
		if own, doc, err = e.unflushed(ctx, c, call); err != nil {
			return err
		}
		change := &patch.Change{Before: c.before, Content: c.content, HandlerPatch: doc, Allow: e.allow(c)}
		written, err := e.writer.Write(ctx, change)
		if len(e.ReconcileHandlers.IDs()) > 0 {
			c.memory.OwnVersions = append(c.memory.OwnVersions, change.WrittenVersions...)
		}
		if err != nil || written == nil {
			return err
		}
		e.reportDropped(ctx, change, call.ID, doc)
		// It is handled with the rest of what the handler changes.
		c.cause, c.edited = e.detector.MergeFlushed(c.cause, c.content, doc), true
		return e.flushed(c, own, written)
	}
}

// backgroundFlusher is that of background work, which has no pass.
func (e *Engine) backgroundFlusher(c *cycle, call *invoke.Request, a *companion) func(context.Context) error {
	return func(ctx context.Context) error {
		own, doc, err := e.unflushed(ctx, c, call)
		if len(doc) == 0 || err != nil {
			return err
		}
		apart := &cycle{memory: c.memory, before: c.before, content: c.content, grace: c.grace, suspensions: c.suspensions}
		if err := e.deposit(ctx, apart, call.ID, doc, a, false); err != nil || apart.deposited == nil {
			return err
		}
		return e.flushed(c, own, apart.deposited)
	}
}

// unflushed is what a handler has changed in the status since it was called, or since the last time: to its own copy, and
// to the object as it is by now.
func (e *Engine) unflushed(ctx context.Context, c *cycle, call *invoke.Request) (own, doc patch.MergePatch, err error) {
	changed, err := e.changes(ctx, c, call.ID, call.Object)
	status, ok := changed["status"]
	if !ok || err != nil {
		return nil, nil, err
	}
	own = patch.MergePatch{"status": status}
	return own, c.fitted(own).Unapplied(c.content), nil
}

// fitted makes a change of what handlers were shown one of the object as it was written while one was at work.
func (c *cycle) fitted(doc patch.MergePatch) patch.MergePatch {
	if !c.apart {
		return doc
	}
	written := c.content
	for _, s := range c.shares { // they are ahead of it
		written = s.doc.Apply(written)
	}
	return doc.Rebase(c.current, written)
}

// supersede removes from the pending changes of earlier handlers the fields that a Flush has written: the handler that
// flushed has seen these changes, and its values replace them.
func (c *cycle) supersede(flushed patch.MergePatch) {
	for _, s := range c.shares {
		s.doc = s.doc.WithoutOverwritten(flushed, c.content)
	}
	c.shares = slices.DeleteFunc(c.shares, func(s *share) bool { return len(s.doc) == 0 })
}

// flushed goes on from a state of the object that was written while a handler is at work. To the handler, only its own
// change has been made.
func (e *Engine) flushed(c *cycle, own patch.MergePatch, written client.Object) error {
	e.identify(written)
	if err := e.show(c, own); err != nil {
		return err
	}
	e.states.UpdateUnlessOlder(written)
	c.memory.SetAwaitedVersion(written.GetResourceVersion(), patience)
	c.supersede(own)
	return c.continueFrom(written)
}
