package commit

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Write sends all changes of handlers and the framework since the last write, or nothing if the object already contains them. report adds
// the conditions about handlers to the draft, and is called again after a rejection. If the result is pending, the next reconcile
// must retry the write before anything else.
func (s *Session) Write(ctx context.Context, report func(context.Context)) (Result, error) {
	s.result = Result{}
	if err := s.Draft.MakeWhole(); err != nil {
		return s.result, err
	}
	var written client.Object
	var err error
	wasOverlaid := s.memory.Overlay != nil
	for again := true; again && err == nil; {
		written, again, err = s.tryWrite(ctx, report)
		if isOverlaid := s.memory.Overlay != nil; err == nil && !again && isOverlaid != wasOverlaid && !s.memory.FinalizerRemoved {
			wasOverlaid = isOverlaid
			report(ctx)
			again = s.Draft.HasChanges() // the condition that reports the overlay
		}
	}
	if errors.Is(err, patch.ErrGone) {
		s.writing.pending, s.memory.FoundDeleted, s.result.Deleted = false, true, true
		written, err = nil, nil
	}
	if err != nil {
		written = nil
	}
	s.result.Object, s.result.Pending = written, s.writing.pending
	return s.result, err
}

// tryWrite tries once to write the change. It returns true if the change must be written again in a different form.
func (s *Session) tryWrite(ctx context.Context, report func(context.Context)) (written client.Object, again bool, err error) {
	if s.writing.isolated != nil {
		if err := s.continueIsolation(ctx); err != nil {
			return nil, false, err
		}
	}
	if s.writing.change == nil {
		if err := s.prepare(ctx, report); err != nil {
			return nil, false, err
		}
	}
	written, err = s.send(ctx, s.writing.change)
	concurrent, isConcurrent := errors.AsType[*patch.ConcurrentChangeError](err)
	switch {
	case err == nil && s.writing.change == s.writing.spec:
		return nil, true, s.acceptSpec(ctx, written)
	case err == nil:
		written, err = s.accept(ctx, written)
		return written, false, err
	case isConcurrent:
		s.dropFields(ctx, concurrent.Fields)
		return nil, true, nil
	case IsRejected(err) && len(s.writing.revert) > 0:
		return nil, true, s.abandonRevert(ctx, err)
	case IsRejected(err) && s.Draft.HasChanges():
		return nil, true, s.isolateRejected(ctx, err)
	case errors.Is(err, patch.ErrGone), errors.Is(err, progress.ErrConflict):
		return nil, false, err
	case IsRejected(err) && len(s.writing.change.FrameworkPatch) > 0 && s.committer.Remote == nil:
		// Neither handlers nor deletions wait until the framework's part is accepted.
		if err := s.keepInMemory(ctx, s.writing.change, err); err != nil || s.writing.change.RemoveFinalizer != "" {
			return nil, true, err
		}
		written, err = s.accept(ctx, nil)
		return written, false, err
	case s.giveUpPatches(ctx, err):
		return nil, true, nil
	}
	return nil, false, s.failed(err)
}

// prepare builds the change with everything since the last write.
func (s *Session) prepare(ctx context.Context, report func(context.Context)) error {
	tx, err := s.build(ctx, report)
	if err != nil {
		return err
	}
	if tx, err = s.specFirst(ctx, tx); err != nil {
		return err
	}
	if before := s.Draft.Base(); s.writing.spec == nil {
		if err := s.pinAhead(ctx, tx.Change.HandlerPatch); err != nil {
			if errors.Is(err, progress.ErrConflict) {
				return fmt.Errorf("writing the object: %w", err)
			}
			return s.failed(err)
		}
		if s.Draft.Base() != before {
			if tx, err = s.build(ctx, report); err != nil {
				return err
			}
		}
	}
	if s.writing.sendsOverlay = false; s.writing.spec == nil || s.memory.Overlay == nil { // the overlay is written with the records
		if tx.Change.FrameworkPatch, err = s.complete(ctx, tx.Change.FrameworkPatch); err != nil {
			return err
		}
	}
	if s.writing.reduced != nil {
		tx.Change.ResumeFrom(s.writing.reduced)
		s.writing.reduced = nil
	}
	s.writing.change, s.writing.handled, s.writing.baseline = tx.Change, tx.Handled, tx.NewBaseline
	return nil
}

// build returns the transaction for all changes since the last write.
func (s *Session) build(ctx context.Context, report func(context.Context)) (Transaction, error) {
	if s.Draft.base.Object == s.Draft.stored.Object { // the overlay may be new
		if err := s.Draft.applyOverlay(); err != nil {
			return Transaction{}, err
		}
	}
	report(ctx)
	tx, err := s.builder.Build(s.input())
	if err != nil {
		return tx, err
	}
	tx.Change.Expected = s.Draft.Current()
	s.warnBaselineTooLarge(ctx, tx)
	return tx, nil
}

// accept continues the session with the object that the API server has stored.
func (s *Session) accept(ctx context.Context, written client.Object) (client.Object, error) {
	change, handlerPatch := s.writing.change, s.writing.change.HandlerPatch
	for _, p := range s.Draft.patches {
		s.committer.ReportDropped(ctx, change, p.ID, p.Patch)
		s.noteObservations(p.Patch, s.Draft.Content())
	}
	stored, err := s.noteAccepted(change, Accepted{Whole: true, Patches: s.Draft.patches}, written)
	if err != nil {
		return nil, err
	}
	if s.writing.sendsOverlay {
		s.dropOverlay(ctx)
	}
	s.writing.pending, s.writing.change = false, nil
	s.edited = s.edited || len(handlerPatch) > 0
	s.Cause = s.builder.Detector.CauseAfterWrite(s.Cause, s.Draft.Content(), s.writing.handled, handlerPatch)
	s.noteBaseline(s.writing.baseline)
	s.writing.baseline, s.Draft.patches, s.writing.revert = nil, nil, nil
	if written == nil {
		return s.Draft.Base(), s.Draft.SetBase(s.Draft.Base())
	}
	if err := s.Draft.setStored(patch.Converted{Object: written, Content: stored}); err != nil {
		return nil, err
	}
	after, isAltered := s.causeOfStored(ctx, s.Cause, change)
	s.Cause = after
	if isAltered {
		if err := s.storeCorrection(ctx); err != nil {
			return nil, err
		}
	}
	return written, nil
}

// storeCorrection stores the baseline again after the API server has altered handlers' changes, for example because it dropped an unknown
// field. Otherwise, every later reconcile would take the difference for an update.
func (s *Session) storeCorrection(ctx context.Context) error {
	tx, err := s.builder.BuildCorrection(s.Draft.Base(), s.Draft.Content(), &s.Cause, s.IsFinished())
	if err != nil {
		return err
	}
	s.warnBaselineTooLarge(ctx, tx)
	change := tx.Change
	if change.FrameworkPatch, err = s.complete(ctx, change.FrameworkPatch); err != nil {
		return err
	}
	written, err := s.send(ctx, change)
	if IsRejected(err) && len(change.FrameworkPatch) > 0 {
		err = s.keepInMemory(ctx, change, err)
		written = s.Draft.Base()
	}
	switch {
	case errors.Is(err, patch.ErrGone), errors.Is(err, progress.ErrConflict):
		return err
	case err != nil:
		s.writing.change, s.writing.handled, s.writing.baseline = change, tx.Handled, tx.NewBaseline // the next reconcile retries the correction
		return s.failed(err)
	case written == nil:
		return nil
	}
	if s.writing.sendsOverlay {
		s.dropOverlay(ctx)
	}
	s.noteBaseline(tx.NewBaseline)
	after := s.Cause
	err = s.Draft.SetBase(written)
	after.Live = s.builder.Detector.Essence.Build(s.Draft.Content())
	s.Cause = after
	return err
}

// specFirst returns the transaction that must be written first, which is usually the given one. But if handlers change the spec and the
// status says which generation the operator has observed, the part outside of the status goes first, and specFirst sets s.writing.spec. The
// next transaction writes the status with the new generation, and then the records.
//
// The first part includes the amended baseline and the pin. So after a crash, the handlers are called again, and their changes don't count
// as an update.
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

// acceptSpec continues the session once the part outside of the status is written. The status is still pending.
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

// pinAhead stores the pin before a request that changes status fields of the essence, because records and baseline follow only in a later
// request. Without the pin, a crash between the two would let the next process take the new status for the changed state, and handlers for
// the old state might no longer match.
func (s *Session) pinAhead(ctx context.Context, changed patch.MergePatch) error {
	if !s.builder.HasStatus || s.Gone || s.memory.Overlay != nil || s.Cause.PinnedDigest != "" || !s.Cause.HasPin() {
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
