package engine

import (
	"context"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// The Event and the condition that report an overlay.
const (
	progressNotStored = "ProgressNotStored"
	reasonRejected    = "Rejected"
)

// useOverlay lets the cycle see the overlay of the object, the part of the framework that the API server has rejected, as if it
// were stored. If another client has changed that part of the object since, the overlay is out of date and is dropped.
func (e *Engine) useOverlay(ctx context.Context, c *cycle) error {
	c.overlaid = true
	kept := c.memory.Worker.Overlay
	if kept == nil {
		return nil
	}
	if !e.sameOurs(kept.Content, c.content) {
		log.FromContext(ctx).Info("Another client has changed the stored progress; dropping the progress that is kept in memory")
		c.memory.Worker.Overlay = nil
		return nil
	}
	// Changes of the status and of the finalizers do not make the API server accept more of the annotations.
	changed := patch.Diff(kept.Content, c.content).WithoutServerFields().WithoutField("status").WithoutField("metadata", "finalizers")
	c.retriesOverlay = len(changed) > 0
	return c.begin(c.before)
}

// applyOverlay puts the overlay onto the object, if it is not there yet.
func (c *cycle) applyOverlay() error {
	if !c.overlaid || c.memory.Worker.Overlay == nil || c.before == c.laid {
		return nil
	}
	content := patch.MergePatch(c.memory.Worker.Overlay.Patch).Apply(c.content)
	obj := reflect.New(reflect.TypeOf(c.before).Elem()).Interface().(client.Object)
	if err := patch.FromContent(content, obj); err != nil {
		return err
	}
	c.bare, c.bareContent = c.before, c.content
	c.before, c.content, c.laid = obj, content, obj
	return nil
}

// withoutOverlay is the JSON form of the object as the API server has it.
func (c *cycle) withoutOverlay() map[string]any {
	if c.laid != nil && c.before == c.laid {
		return c.bareContent
	}
	return c.content
}

// withOverlay adds the overlay to a patch of the framework. It is not sent again if there is nothing new: neither in the patch, nor in
// the object.
func (c *cycle) withOverlay(ours patch.MergePatch) (all patch.MergePatch, tried bool) {
	kept := c.memory.Worker.Overlay
	if kept == nil || len(ours) == 0 && !c.retriesOverlay {
		return ours, false
	}
	return patch.Merge(kept.Patch, ours).Unapplied(c.withoutOverlay()), true
}

// reject keeps the part of the framework in memory that the API server has rejected. The change goes on without it.
func (e *Engine) reject(ctx context.Context, c *cycle, change *patch.Change, rejection error) error {
	if err := e.goOn(c, change); err != nil { // a part in the status may be stored
		return err
	}
	metrics.RejectedProgress.WithLabelValues(e.Name).Inc()
	isNew := c.memory.Worker.Overlay == nil
	c.memory.Worker.Overlay = &overlay{Patch: change.FrameworkPatch, Content: c.withoutOverlay(), Message: rejection.Error()}
	change.FrameworkPatch, c.triesOverlay, c.retriesOverlay = nil, false, false
	if !isNew {
		return nil
	}
	const note = "The progress of the handlers cannot be stored on the object. It is kept in memory: after a restart, handlers may be called again"
	log.FromContext(ctx).Error(rejection, note)
	if e.Events != EventsOff {
		e.post(c.before, true, "Warning", progressNotStored, "Handle", note+". "+rejection.Error())
	}
	return nil
}

// accept drops the overlay if it was part of the last write.
func (e *Engine) accept(ctx context.Context, c *cycle) {
	if !c.triesOverlay {
		return
	}
	c.memory.Worker.Overlay, c.triesOverlay, c.retriesOverlay = nil, false, false
	log.FromContext(ctx).Info("The progress that was kept in memory is stored on the object")
}

// describeOverlay sets or removes the condition that reports the overlay, for kinds that declare conditions.
func (e *Engine) describeOverlay(c *cycle, set *conditions.Set) {
	switch {
	case len(e.Declared) == 0:
	case c.memory.Worker.Overlay == nil:
		set.Remove(progressNotStored)
	default:
		set.True(progressNotStored, reasonRejected, c.memory.Worker.Overlay.Message)
	}
}

// sameOurs reports whether two states of an object have the same records, baseline and pin.
func (e *Engine) sameOurs(one, other map[string]any) bool {
	for _, item := range diff.Of(e.ours(one), e.ours(other)) {
		if !isEmpty(item.Old) || !isEmpty(item.New) {
			return false
		}
	}
	return true
}
