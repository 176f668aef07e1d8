package commit

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// UseOverlay adds what isn't stored on the object to the draft: progress that is kept elsewhere, or that the API server has rejected.
// Rejected progress is dropped if another client has changed the progress on the object.
func (s *Session) UseOverlay(ctx context.Context) error {
	if s.committer.Remote != nil {
		if err := s.loadRemote(ctx); err != nil {
			return err
		}
	}
	kept, stored := s.memory.Overlay, s.Draft.Stored().Content
	switch {
	case s.memory.Remote != nil:
	case kept == nil:
		return nil
	case !s.builder.SameFrameworkPart(kept.Content, stored):
		log.FromContext(ctx).Info("Another client has changed the stored progress; dropping the progress that is kept in memory")
		s.memory.Overlay = nil
	default:
		// If only the status or the finalizers have changed, the API server will reject the annotations again.
		changed := patch.Diff(kept.Content, stored).WithoutServerFields().WithoutField("status").WithoutField("metadata", "finalizers")
		s.retriesOverlay = len(changed) > 0
	}
	return s.Draft.SetBase(s.Draft.Base())
}

// complete adds to a framework patch what the stored object still needs: the overlay, or removing a different object's state. An empty
// patch stays empty, unless the object has changed so that the overlay must be sent again.
func (s *Session) complete(ctx context.Context, ours patch.MergePatch) (patch.MergePatch, error) {
	if s.writing.sendsOverlay = false; s.memory.Overlay != nil {
		if len(ours) == 0 && !s.retriesOverlay {
			return ours, nil
		}
		s.writing.sendsOverlay = true
		return patch.Merge(s.memory.Overlay.Patch, ours).Unapplied(s.Draft.Stored().Content), nil
	}
	stored := s.Draft.Stored()
	foreign, err := s.builder.disown(stored.Object, stored.Content)
	if len(foreign) == 0 || len(ours) == 0 || err != nil {
		return ours, err
	}
	log.FromContext(ctx).Info("Removing the stored progress of another object: this object is a copy of it, was restored, or was applied from its exported manifest")
	return patch.Merge(foreign, ours).Unapplied(stored.Content), nil
}

// keepInMemory keeps the rejected framework's part as the overlay and removes it from the change.
func (s *Session) keepInMemory(ctx context.Context, change *patch.Change, rejection error) error {
	if err := s.resumeFrom(change); err != nil { // its part in the status may be stored already
		return err
	}
	metrics.RejectedProgress.WithLabelValues(s.committer.Name).Inc()
	isNew := s.memory.Overlay == nil
	s.memory.Overlay = &Overlay{Patch: change.FrameworkPatch, Content: s.Draft.Stored().Content, Message: rejection.Error()}
	change.FrameworkPatch, s.writing.sendsOverlay, s.retriesOverlay = nil, false, false
	if !isNew {
		return nil
	}
	const note = "The progress of the handlers cannot be stored on the object. It is kept in memory: after a restart, handlers may be called again"
	log.FromContext(ctx).Error(rejection, note)
	s.committer.Warn(s.Draft.Base(), ProgressNotStored, note+". "+rejection.Error())
	return nil
}

// dropOverlay drops the overlay, because the last write has stored it.
func (s *Session) dropOverlay(ctx context.Context) {
	s.memory.Overlay, s.writing.sendsOverlay, s.retriesOverlay = nil, false, false
	log.FromContext(ctx).Info("The progress that was kept in memory is stored on the object")
}
