package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// record makes the framework's part of a write: the records while the cause is being handled; when
// it is over, their removal and the new baseline.
func (e *Engine) record(ctx context.Context, c *cycle, changed patch.MergePatch, handled map[string]any) (patch.MergePatch, error) {
	onlyAnnotations := e.usesOnlyAnnotations(c.before)
	var kept client.Object
	if onlyAnnotations {
		kept = metadataOf(c.before)
	} else {
		kept = c.before.DeepCopyObject().(client.Object)
	}
	var err error
	switch {
	case c.closed():
		err = errors.Join(c.state.Purge(e.Store, kept), e.sweep(kept), e.close(ctx, c, kept, handled))
	case c.cause.Reason.HasHandlers():
		err = errors.Join(c.state.Save(e.Store, kept), e.amend(ctx, c, kept, changed), e.pin(c, kept, handled), e.squeeze(c, kept))
	case c.parting:
		e.Pin.Store(kept, nil)
		err = c.state.Purge(e.Store, kept) // nobody waits for a delay to be over
	case c.cause.Reason == cause.Noop:
		err = errors.Join(c.state.PurgeStale(e.Store, kept, now()), e.amend(ctx, c, kept, changed))
		e.Pin.Store(kept, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("recording progress: %w", err)
	}
	c.stored = e.stores(c, kept)
	if onlyAnnotations {
		return patch.DiffAnnotations(c.before.GetAnnotations(), kept.GetAnnotations()), nil
	}
	content, err := patch.Content(kept)
	if err != nil {
		return nil, fmt.Errorf("recording progress: %w", err)
	}
	return patch.Diff(c.content, content), nil
}

// usesOnlyAnnotations reports whether recording changes nothing but the annotations of an object.
func (e *Engine) usesOnlyAnnotations(obj client.Object) bool {
	return progress.UsesOnlyAnnotations(e.Store, obj) && progress.UsesOnlyAnnotations(e.Baseline, obj) && progress.UsesOnlyAnnotations(e.Pin, obj)
}

// metadataOf returns a copy of the metadata of an object as far as stores read it.
func metadataOf(obj client.Object) client.Object {
	out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
		Labels: obj.GetLabels(), Annotations: maps.Clone(obj.GetAnnotations()), OwnerReferences: obj.GetOwnerReferences(),
	}}
	out.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	return out
}

// pin stores the essence that is being handled, for the reconciles to come.
func (e *Engine) pin(c *cycle, kept client.Object, handled map[string]any) error {
	p, err := c.cause.PinOf(handled)
	if err != nil {
		return err
	}
	return e.storePin(c, kept, p)
}

// squeeze shortens the messages in the records until all of them fit on the object: what handlers have
// achieved is more than what some of them have said.
func (e *Engine) squeeze(c *cycle, kept client.Object) error {
	for _, limit := range []int{256, 32, 0} {
		if sizeOf(kept)+c.added <= annotationLimit {
			return nil
		}
		c.state.TruncateMessages(limit)
		if err := c.state.Save(e.Store, kept); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes the records of handlers that the operator has no more (B-29).
func (e *Engine) sweep(kept client.Object) error {
	if sweeper, ok := e.Store.(progress.Sweeper); ok {
		return sweeper.Sweep(kept, e.Handlers.IDs())
	}
	return nil
}

// close stores what was handled: the essence that the cycle began with, and what the handlers have
// changed themselves; not what others have changed meanwhile. A deleted object needs none.
func (e *Engine) close(ctx context.Context, c *cycle, kept client.Object, handled map[string]any) error {
	if c.cause.PinnedDigest != "" && c.cause.Reason != cause.Delete {
		return errors.Join(e.rememberDigest(c, kept, c.cause.PinnedDigest, e.lastHandled.FetchStored(kept)), e.storePin(c, kept, c.cause.FinalPin(handled)))
	}
	unchanged := !c.cause.OutdatedBaseline && c.cause.Facts.HasBaseline && (!c.cause.Facts.Changed || c.cause.Reversed) && !c.edited && diff.Equal(c.cause.New, handled)
	if c.cause.Reason == cause.Delete || unchanged || !c.cause.OutdatedBaseline && c.cause.Old != nil && !c.cause.Reversed && diff.Equal(c.cause.Old, handled) {
		return e.storePin(c, kept, c.cause.FinalPin(handled))
	}
	return errors.Join(e.keep(ctx, c, kept, handled), e.storePin(c, kept, c.cause.FinalPin(handled)))
}

// keep remembers an essence, and warns, once, when it is too large for that.
func (e *Engine) keep(ctx context.Context, c *cycle, kept client.Object, handled map[string]any) error {
	shortened, err := e.remember(c, kept, handled)
	if err != nil || !shortened || c.memory.LoggedTooLarge {
		return err
	}
	c.memory.LoggedTooLarge = true
	const note = "The object is too large for its last-handled configuration: " +
		"changes are detected, but handlers do not receive the old state"
	log.FromContext(ctx).Info("Warning: " + note)
	if e.Events != EventsOff {
		e.post(c.before, true, "Warning", "BaselineTooLarge", "Handle", note)
	}
	return nil
}

// amend adds what handlers have changed to the last handled essence, before the cause is over: in the
// next pass it would look like somebody's change.
func (e *Engine) amend(ctx context.Context, c *cycle, kept client.Object, changed patch.MergePatch) error {
	if c.cause.OldDigest != "" {
		return e.rememberDigest(c, kept, c.cause.OldDigest, e.lastHandled.FetchStored(kept))
	}
	if c.cause.Old == nil || c.cause.Reason == cause.Delete || len(c.matching) == 0 {
		return nil
	}
	then := e.detector.MergeOwn(c.content, c.cause.Old, changed)
	if diff.Equal(c.cause.Old, then) && !c.cause.Reversed && !c.cause.OutdatedBaseline {
		return nil
	}
	return e.keep(ctx, c, kept, then)
}

// correct makes good for a server that has altered what handlers have changed (it has dropped an
// unknown field, say): else the difference would be an update, again and again.
func (e *Engine) correct(ctx context.Context, c *cycle, theirs patch.MergePatch) error {
	if !e.observe(ctx, c, theirs) {
		return nil
	}
	kept := c.before.DeepCopyObject().(client.Object)
	var err error
	switch {
	case c.closed():
		err = e.keep(ctx, c, kept, c.cause.New)
	case c.cause.Old != nil:
		err = e.keep(ctx, c, kept, c.cause.Old)
	}
	if c.cause.Reason.HasHandlers() && !c.closed() {
		err = errors.Join(err, e.pin(c, kept, c.cause.New))
	}
	if err != nil {
		return err
	}
	content, err := patch.Content(kept)
	if err != nil {
		return err
	}
	change := &patch.Change{Before: c.before, Content: c.content}
	change.FrameworkPatch, c.triesOverlay = c.withOverlay(patch.Diff(c.content, content))
	written, err := e.send(ctx, c, change)
	if refused(err) && len(change.FrameworkPatch) > 0 {
		written, err = c.before, e.reject(ctx, c, change, err)
	}
	if err != nil || written == nil {
		return err
	}
	e.accept(ctx, c)
	e.keeps(c, e.stores(c, kept))
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
