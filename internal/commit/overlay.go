package commit

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// ProgressNotStored is the reason of the Event that reports an overlay, and the type of the condition.
const ProgressNotStored = "ProgressNotStored"

// Overlay is the framework's part of an object (records, baseline, pin) that the API server has rejected. The engine handles the object as if this part
// were stored, until a later write stores it or the process ends.
type Overlay struct {
	// Patch is the rejected part, as a JSON merge patch.
	Patch patch.MergePatch
	// Content is the JSON form of the object for which the API server rejected the patch.
	Content map[string]any
	// Message is the error message of the API server.
	Message string
}

// UseOverlay adds the progress that is not stored on the object to the draft: progress that is stored elsewhere, or that the API server has rejected. If
// another client has changed the progress on the object, UseOverlay drops the rejected progress.
func (s *Session) UseOverlay(ctx context.Context) error {
	if s.Remote != nil {
		if err := s.loadRemote(ctx); err != nil {
			return err
		}
	}
	kept, stored := s.Memory.Overlay, s.Stored().Content
	switch {
	case s.Memory.Remote != nil:
	case kept == nil:
		return nil
	case !s.SameFrameworkPart(kept.Content, stored):
		log.FromContext(ctx).Info("Another client has changed the stored progress; dropping the progress that is kept in memory")
		s.Memory.Overlay = nil
	default:
		// After changes of the status or the finalizers, the API server will reject the annotations again.
		changed := patch.Diff(kept.Content, stored).WithoutServerFields().WithoutField("status").WithoutField("metadata", "finalizers")
		s.retriesOverlay = len(changed) > 0
	}
	return s.SetBase(s.Base())
}

// Overlaid returns the JSON form of an object with its own progress: with the progress that is not stored on it, and without the progress of another object
// from which it was copied. It returns nil if that is what is stored on the object.
func (c *Committer) Overlaid(memory *Memory, obj client.Object) (map[string]any, error) {
	if copied, _ := c.isCopied(obj); !copied && memory.Remote == nil && memory.Overlay == nil {
		return nil, nil
	}
	content, err := patch.Content(obj)
	if err != nil {
		return nil, err
	}
	return c.overlaid(memory, patch.Converted{Object: obj, Content: content})
}

func (c *Committer) overlaid(memory *Memory, stored patch.Converted) (map[string]any, error) {
	if remote := memory.Remote; remote != nil && remote.part != nil {
		return remote.part.Apply(c.withoutFrameworkPart(stored.Content)), nil
	}
	if memory.Overlay != nil {
		return memory.Overlay.Patch.Apply(stored.Content), nil
	}
	foreign, err := c.disown(stored.Object, stored.Content)
	if len(foreign) == 0 || err != nil {
		return nil, err
	}
	return foreign.Apply(stored.Content), nil
}

// complete adds to a patch of the framework what the stored object lacks for it: the overlay, or the removal of another object's state. An empty patch stays
// empty, unless the overlay must be sent again.
func (s *Session) complete(ctx context.Context, ours patch.MergePatch) (patch.MergePatch, error) {
	if s.sendsOverlay = false; s.Memory.Overlay != nil {
		ours, s.sendsOverlay = s.addOverlay(ours)
		return ours, nil
	}
	stored := s.Stored()
	foreign, err := s.disown(stored.Object, stored.Content)
	if len(foreign) == 0 || len(ours) == 0 || err != nil {
		return ours, err
	}
	log.FromContext(ctx).Info("Removing the stored progress of another object: this object is a copy of it, was restored, or was applied from its exported manifest")
	return patch.Merge(foreign, ours).Unapplied(stored.Content), nil
}

// addOverlay adds the overlay to a patch of the framework. It sends the overlay again only if the patch is not empty or the object has changed.
func (s *Session) addOverlay(ours patch.MergePatch) (all patch.MergePatch, sends bool) {
	kept := s.Memory.Overlay
	if len(ours) == 0 && !s.retriesOverlay {
		return ours, false
	}
	return patch.Merge(kept.Patch, ours).Unapplied(s.Stored().Content), true
}

// keepInMemory keeps the rejected framework's part as the overlay, and removes it from the change.
func (s *Session) keepInMemory(ctx context.Context, change *patch.Change, rejection error) error {
	if err := s.resumeFrom(change); err != nil { // the part in the status may be stored
		return err
	}
	metrics.RejectedProgress.WithLabelValues(s.Name).Inc()
	isNew := s.Memory.Overlay == nil
	s.Memory.Overlay = &Overlay{Patch: change.FrameworkPatch, Content: s.Stored().Content, Message: rejection.Error()}
	change.FrameworkPatch, s.sendsOverlay, s.retriesOverlay = nil, false, false
	if !isNew {
		return nil
	}
	const note = "The progress of the handlers cannot be stored on the object. It is kept in memory: after a restart, handlers may be called again"
	log.FromContext(ctx).Error(rejection, note)
	s.Warn(s.Base(), ProgressNotStored, note+". "+rejection.Error())
	return nil
}

// dropOverlay drops the overlay, because the last write contained it.
func (s *Session) dropOverlay(ctx context.Context) {
	s.Memory.Overlay, s.sendsOverlay, s.retriesOverlay = nil, false, false
	log.FromContext(ctx).Info("The progress that was kept in memory is stored on the object")
}
