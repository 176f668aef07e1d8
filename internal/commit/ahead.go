package commit

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// specFirst returns the transaction that must be written first. This is the given one, unless handlers change the spec, and the status says which generation the
// operator has observed. Then it is only the part outside of the status, and specFirst sets s.writing.spec. The next transaction writes the status with the new
// generation, and the records after it.
//
// The part outside of the status also amends the baseline, and pins the object. After a crash, the handlers are called again, and their changes are not an
// update.
func (s *Session) specFirst(ctx context.Context, tx Transaction) (Transaction, error) {
	s.writing.spec = nil
	seen := s.Draft.Base().GetGeneration()
	if !s.builder.HasStatus || s.Gone || seen == 0 || s.Cause.OldDigest != "" || tx.Change.RemoveFinalizer != "" || !tx.Change.HandlerPatch.ChangesSpec() ||
		!s.observes(ctx, patch.Generations{From: seen, To: seen + 1}) {
		return tx, nil
	}
	first, err := s.builder.BuildSpecFirst(s.input(), tx.Change)
	if err != nil {
		return tx, err
	}
	if s.memory.Overlay != nil { // the API server may reject this part again
		first.Change.FrameworkPatch, first.NewBaseline = nil, nil
	}
	first.Change.SeenGeneration = seen
	s.writing.spec = first.Change
	return first, nil
}

// acceptSpec continues the session after the first part of its changes was written. The status is still pending.
func (s *Session) acceptSpec(ctx context.Context, written client.Object) error {
	change := s.writing.change
	var patches []*HandlerPatch
	for _, p := range s.Draft.patches {
		rest := p.Patch.WithoutField("status")
		s.committer.ReportDropped(ctx, change, p.ID, rest)
		patches = append(patches, &HandlerPatch{ID: p.ID, Report: p.Report, Patch: rest})
		p.written, p.Patch = patch.Merge(p.written, rest), p.Patch.StatusPart()
	}
	s.Draft.dropEmptyPatches()
	s.writing.pending, s.writing.change, s.edited, s.writing.revert = false, nil, true, s.writing.revert.StatusPart()
	stored, err := s.noteAccepted(change, Accepted{Patches: patches}, written)
	if err != nil {
		return err
	}
	after := s.builder.Detector.CauseAfterWrite(s.Cause, s.Draft.Content(), s.writing.handled, change.HandlerPatch)
	after.OutdatedBaseline = true // the next write completes it
	s.noteBaseline(s.writing.baseline)
	s.writing.baseline = nil
	if written == nil {
		s.Cause = after
		return nil
	}
	if err := s.Draft.advance(patch.Converted{Object: written, Content: stored}); err != nil {
		return err
	}
	after, _ = s.causeOfStored(ctx, after, change)
	s.Cause = after
	s.noteRaiseBy(change)
	return nil
}

// pinAhead stores the pin before a request that changes status fields of the essence. A later request stores the records and the baseline. If the
// process ended between these two requests without a pin, the next process would handle the new status as the changed state. Handlers for the old state might
// then no longer match.
func (s *Session) pinAhead(ctx context.Context, changed patch.MergePatch) error {
	if !s.builder.HasStatus || s.Gone || s.memory.Overlay != nil || s.Cause.PinnedDigest != "" || s.Cause.Reason != cause.Create && s.Cause.Reason != cause.Update {
		return nil
	}
	isPinned := s.builder.Pin.Fetch(s.Draft.Base()) != nil && !s.Cause.StalePin
	status, ok := changed["status"]
	if !ok || isPinned || !s.builder.Detector.StatusAffectsEssence(s.Draft.Content(), status) {
		return nil
	}
	change, err := s.builder.BuildPin(s.Draft.Base(), s.Draft.Content(), &s.Cause)
	if err == nil {
		change.FrameworkPatch, err = s.complete(ctx, change.FrameworkPatch)
	}
	if err != nil {
		return fmt.Errorf("pinning the object: %w", err)
	}
	written, err := s.send(ctx, change)
	switch {
	case IsRejected(err):
		log.FromContext(ctx).Info("Cannot pin the object before its status changes: after a crash, handlers may not match any more", "error", err.Error())
		return nil
	case err != nil || written == nil:
		return err
	}
	return s.Draft.ContinueFrom(written)
}
