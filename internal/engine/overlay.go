package engine

import (
	"context"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// The Event and the condition that report an overlay.
const (
	progressNotStored = "ProgressNotStored"
	reasonRejected    = "Rejected"
)

// useOverlay applies the overlay of the object: the part of the framework that the API server has rejected counts as stored. If another client has
// changed that part of the object, useOverlay drops the overlay.
func (e *Engine) useOverlay(ctx context.Context, r *reconciliation) error {
	if err := e.loadRemote(ctx, r); err != nil {
		return err
	}
	r.overlaid = e.overlaid
	if r.known.Worker.Remote != nil {
		return r.setBase(r.before)
	}
	kept := r.known.Worker.Overlay
	if kept == nil {
		return nil
	}
	if !e.sameFrameworkPart(kept.Content, r.content) {
		log.FromContext(ctx).Info("Another client has changed the stored progress; dropping the progress that is kept in memory")
		r.known.Worker.Overlay = nil
		return nil
	}
	// After changes of the status or the finalizers, the API server will reject the annotations again.
	changed := patch.Diff(kept.Content, r.content).WithoutServerFields().WithoutField("status").WithoutField("metadata", "finalizers")
	r.retriesOverlay = len(changed) > 0
	return r.setBase(r.before)
}

// overlaid returns the JSON form of an object with its overlay, or with its remote part. It returns nil if the object has neither.
func (e *Engine) overlaid(known *objectState, content map[string]any) map[string]any {
	if remote := known.Worker.Remote; remote != nil && remote.part != nil {
		return e.withRemotePart(content, remote.part)
	}
	if known.Worker.Overlay != nil {
		return patch.MergePatch(known.Worker.Overlay.Patch).Apply(content)
	}
	return nil
}

// applyOverlay applies the overlay to the base, unless that is done.
func (r *reconciliation) applyOverlay() error {
	if r.overlaid == nil || r.before == r.overlaidObject {
		return nil
	}
	content := r.overlaid(r.known, r.content)
	if content == nil {
		return nil
	}
	obj := reflect.New(reflect.TypeOf(r.before).Elem()).Interface().(client.Object)
	if err := patch.FromContent(content, obj); err != nil {
		return err
	}
	r.storedObject, r.storedContent = r.before, r.content
	r.before, r.content, r.overlaidObject = obj, content, obj
	return nil
}

// withoutOverlay returns the JSON form of the object as the API server has it.
func (r *reconciliation) withoutOverlay() map[string]any {
	if r.overlaidObject != nil && r.before == r.overlaidObject {
		return r.storedContent
	}
	return r.content
}

// withoutOverlaidPart returns the object as the API server has it.
func (r *reconciliation) withoutOverlaidPart() client.Object {
	if r.overlaidObject != nil && r.before == r.overlaidObject {
		return r.storedObject
	}
	return r.before
}

// addOverlay adds the overlay to a patch of the framework. The overlay is sent again only if the patch or the object has changed.
func (r *reconciliation) addOverlay(ours patch.MergePatch) (all patch.MergePatch, tried bool) {
	kept := r.known.Worker.Overlay
	if kept == nil || len(ours) == 0 && !r.retriesOverlay {
		return ours, false
	}
	return patch.Merge(kept.Patch, ours).Unapplied(r.withoutOverlay()), true
}

// keepInMemory keeps the rejected part of the framework as the overlay. The change is written without it.
func (e *Engine) keepInMemory(ctx context.Context, r *reconciliation, change *patch.Change, rejection error) error {
	if err := e.resumeFrom(r, change); err != nil { // the part in the status may be stored
		return err
	}
	metrics.RejectedProgress.WithLabelValues(e.Name).Inc()
	isNew := r.known.Worker.Overlay == nil
	r.known.Worker.Overlay = &overlay{Patch: change.FrameworkPatch, Content: r.withoutOverlay(), Message: rejection.Error()}
	change.FrameworkPatch, r.triesOverlay, r.retriesOverlay = nil, false, false
	if !isNew {
		return nil
	}
	const note = "The progress of the handlers cannot be stored on the object. It is kept in memory: after a restart, handlers may be called again"
	log.FromContext(ctx).Error(rejection, note)
	if e.Events != EventsOff {
		e.post(r.before, true, "Warning", progressNotStored, "Handle", note+". "+rejection.Error())
	}
	return nil
}

// dropOverlay drops the overlay if the last write contained it.
func (e *Engine) dropOverlay(ctx context.Context, r *reconciliation) {
	if !r.triesOverlay {
		return
	}
	r.known.Worker.Overlay, r.triesOverlay, r.retriesOverlay = nil, false, false
	log.FromContext(ctx).Info("The progress that was kept in memory is stored on the object")
}

// setProgressNotStored sets or removes the condition that reports the overlay, for kinds that declare conditions.
func (e *Engine) setProgressNotStored(r *reconciliation, set *conditions.Set) {
	switch {
	case len(e.DeclaredConditions) == 0:
	case r.known.Worker.Overlay == nil:
		set.Remove(progressNotStored)
	default:
		set.True(progressNotStored, reasonRejected, r.known.Worker.Overlay.Message)
	}
}
