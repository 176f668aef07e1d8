package commit

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// storeCorrection stores the baseline again if the API server has altered the changes of handlers, for example by dropping an unknown field.
// Otherwise, every later reconcile would detect the difference as an update.
func (s *Session) storeCorrection(ctx context.Context, handlerPatch patch.MergePatch) error {
	if !s.mergeStored(ctx, handlerPatch) {
		return nil
	}
	tx, err := s.BuildCorrection(s.Base(), s.Content(), &s.Cause, s.IsFinished())
	if err != nil {
		return err
	}
	s.warnBaselineTooLarge(ctx, tx)
	change := tx.Change
	if s.sendsOverlay = false; s.Memory.Overlay != nil {
		change.FrameworkPatch, s.sendsOverlay = s.addOverlay(change.FrameworkPatch)
	}
	written, err := s.Send(ctx, change)
	if IsRejected(err) && len(change.FrameworkPatch) > 0 {
		err = s.keepInMemory(ctx, change, err)
		written = s.Base()
	}
	switch {
	case errors.Is(err, patch.ErrGone), errors.Is(err, progress.ErrConflict):
		return err
	case err != nil:
		s.change, s.handled, s.baseline = change, tx.Handled, tx.NewBaseline // the next reconcile repeats the correction
		return s.failed(err)
	case written == nil:
		return nil
	}
	if s.sendsOverlay {
		s.dropOverlay(ctx)
	}
	s.noteBaseline(tx.NewBaseline)
	return s.SetBase(written)
}

// mergeStored merges the stored values of the changed fields into the cause, and reports whether they differ from the values that were sent.
func (s *Session) mergeStored(ctx context.Context, handlerPatch patch.MergePatch) (differs bool) {
	if s.Unmatched {
		return false
	}
	s.Cause, differs = s.Detector.MergeStored(s.Cause, s.Content(), handlerPatch, log.FromContext(ctx))
	return differs
}
