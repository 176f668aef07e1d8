package commit

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// Flush writes the status changes that a handler has made in its copy of the object so far. The session then continues with the object from
// the response.
func (s *Session) Flush(ctx context.Context, id string, copied client.Object) error {
	s.result = Result{}
	own, doc, err := s.committer.FlushableChanges(ctx, s.Draft, id, copied)
	if len(own) == 0 || err != nil {
		return err
	}
	if len(doc) == 0 { // the object has these values already
		s.Draft.dropSuperseded(own)
		s.Draft.isBehind = true // the handler's copy has its own values
		return s.Draft.Apply(own)
	}
	if err := s.committer.AwaitFenceUnchanged(ctx, s.Draft.Base(), &s.Suspensions, s.isUnchangedIn); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	if err := s.pinAhead(ctx, doc); err != nil {
		return err
	}
	if own, doc, err = s.committer.FlushableChanges(ctx, s.Draft, id, copied); err != nil {
		return err
	}
	change := &patch.Change{Before: s.Draft.Base(), Content: s.Draft.Content(), HandlerPatch: doc}
	written, err := s.sendChange(ctx, change)
	if err != nil || written == nil {
		return err
	}
	s.committer.ReportDropped(ctx, change, id, doc)
	s.noteObservations(doc, s.Draft.Content())
	s.Cause = s.builder.Detector.MergePart(s.Cause, s.Draft.Content(), doc)
	s.edited = true
	if _, err := s.noteAccepted(change, Accepted{Patches: []*HandlerPatch{{ID: id, Patch: doc}}}, written); err != nil {
		return err
	}
	return s.Draft.ContinueAfterFlush(own, written)
}
