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
	s.EnableOverlay()
	if s.Memory.Remote != nil {
		return s.SetBase(s.Base())
	}
	kept := s.Memory.Overlay
	if kept == nil {
		return nil
	}
	if !s.SameFrameworkPart(kept.Content, s.Content()) {
		log.FromContext(ctx).Info("Another client has changed the stored progress; dropping the progress that is kept in memory")
		s.Memory.Overlay = nil
		return nil
	}
	// After changes of the status or the finalizers, the API server will reject the annotations again.
	changed := patch.Diff(kept.Content, s.Content()).WithoutServerFields().WithoutField("status").WithoutField("metadata", "finalizers")
	s.retriesOverlay = len(changed) > 0
	return s.SetBase(s.Base())
}

// EnableOverlay makes the draft add the progress that is not stored on the object to each later state of the object.
func (s *Session) EnableOverlay() {
	s.Draft.overlay = func(content map[string]any) map[string]any { return s.overlaid(s.Memory, content) }
}

// Overlaid returns the JSON form of an object with progress that is not stored on the object. It returns nil if there is none.
func (c *Committer) Overlaid(memory *Memory, obj client.Object) (map[string]any, error) {
	if memory.Remote == nil && memory.Overlay == nil {
		return nil, nil
	}
	content, err := patch.Content(obj)
	if err != nil {
		return nil, err
	}
	return c.overlaid(memory, content), nil
}

func (c *Committer) overlaid(memory *Memory, content map[string]any) map[string]any {
	if remote := memory.Remote; remote != nil && remote.part != nil {
		return remote.part.Apply(c.withoutFrameworkPart(content))
	}
	if memory.Overlay != nil {
		return memory.Overlay.Patch.Apply(content)
	}
	return nil
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
	s.EnableOverlay()
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
