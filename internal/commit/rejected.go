package commit

import (
	"context"
	"errors"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// isolateRejected writes each handler's patch in a separate request, to find the one that the API server rejects. Accepted patches are
// stored along the way. The next write stores the records, and reverts the stored parts of rejected patches.
func (s *Session) isolateRejected(ctx context.Context, rejection error) error {
	change := s.writing.change
	s.writing.change, s.result.Rejected = nil, true
	s.writing.isolated = &isolation{base: s.Draft.Base(), partly: change.FirstResponse() != nil}
	if err := s.resumeFrom(change); err != nil {
		return err
	}
	if len(s.Draft.patches) == 1 && len(change.FrameworkPatch) == 0 {
		s.reject(ctx, s.Draft.patches[0], s.writing.isolated.partly, rejection)
		s.Draft.patches = nil
	}
	if len(s.Draft.patches) > 1 || len(change.FrameworkPatch) == 0 { // otherwise, the API server may have rejected the framework's part
		s.Draft.dropReports() // the conditions depend on the outcomes that follow
	}
	return s.continueIsolation(ctx)
}

// continueIsolation writes the remaining patches.
func (s *Session) continueIsolation(ctx context.Context) error {
	for len(s.Draft.patches) > 0 {
		p := s.Draft.patches[0]
		// The patch is based on the object that the handler received, so that concurrent edits of lists are detected.
		if p.singleRequest == nil {
			p.singleRequest = &patch.Change{Before: s.writing.isolated.base, Content: p.Base, HandlerPatch: p.Patch, ReadUntyped: p.Untyped}
			if !s.committer.Observed.IsEmpty() || len(p.Patch.Observations(p.Base)) > 0 {
				p.singleRequest.SeenGeneration = s.Draft.Base().GetGeneration()
			}
		}
		request := p.singleRequest
		written, err := s.send(ctx, request)
		concurrent, isConcurrent := errors.AsType[*patch.ConcurrentChangeError](err)
		switch {
		case isConcurrent:
			p.singleRequest = DropOverwrittenFields(ctx, request, concurrent.Fields)
			p.Patch = p.singleRequest.HandlerPatch
			continue
		case IsRejected(err):
			s.reject(ctx, p, s.writing.isolated.partly || request.FirstResponse() != nil, err)
			if err := s.resumeFrom(request); err != nil {
				return err
			}
		case err != nil:
			return s.failed(err)
		case written != nil:
			if err := s.acceptSingle(ctx, p, written); err != nil {
				return err
			}
		}
		s.Draft.patches = slices.Delete(s.Draft.patches, 0, 1)
	}
	return s.startRevert()
}

// acceptSingle continues the session with the response to a single patch.
func (s *Session) acceptSingle(ctx context.Context, p *HandlerPatch, written client.Object) error {
	s.committer.ReportDropped(ctx, p.singleRequest, p.ID, p.Patch)
	after := s.builder.Detector.MergePart(s.Cause, p.Base, p.Patch)
	s.edited = true
	s.noteObservations(p.Patch, p.Base)
	s.noteRaiseBy(p.singleRequest)
	if err := s.Draft.SetBase(written); err != nil {
		return err
	}
	after, _ = s.causeOfStored(ctx, after, p.singleRequest)
	s.Cause = after
	return nil
}

// reject discards a rejected patch, and remembers it for a revert if part of it was written. partly is true if its status was written.
func (s *Session) reject(ctx context.Context, p *HandlerPatch, partly bool, rejection error) {
	s.discard(ctx, p, rejection)
	if partly {
		p.written = patch.Merge(p.written, p.Patch.StatusPart())
	}
	if len(p.written) > 0 {
		s.writing.isolated.undone = append(s.writing.isolated.undone, p)
	}
}

// startRevert prepares to revert the rejected patches that were partly written. It starts with the last one, because each patch is based on
// those before it. Values that another client has changed since are left alone.
func (s *Session) startRevert() error {
	undone := s.writing.isolated.undone
	s.writing.isolated = nil
	if err := s.Draft.SetBase(s.Draft.Base()); err != nil {
		return err
	}
	content := s.Draft.Content()
	s.writing.revert = nil
	for _, p := range slices.Backward(undone) {
		back := p.written.Revert(p.Base, content)
		s.writing.revert, content = patch.Merge(s.writing.revert, back), back.Apply(content)
	}
	return s.Draft.Apply(s.writing.revert)
}

// abandonRevert gives up a revert that the API server rejects.
func (s *Session) abandonRevert(ctx context.Context, rejection error) error {
	log.FromContext(ctx).V(1).Info("Failed to revert the rejected change", "error", rejection.Error())
	change := s.writing.change
	s.writing.revert, s.writing.change = nil, nil
	s.Draft.dropReports()
	if err := s.resumeFrom(change); err != nil {
		return err
	}
	return s.Draft.SetBase(s.Draft.Base())
}

// discard handles a handler's patch that the API server doesn't accept. If it rejects the content, the attempt has failed. If another
// client has changed the same list, the attempt doesn't count.
//
// An attempt that has returned an error keeps its outcome and only loses its patch.
func (s *Session) discard(ctx context.Context, p *HandlerPatch, rejection error) {
	logger := log.FromContext(ctx).WithValues("handler", p.ID)
	if p.Report {
		s.ReportRejected = true
		logger.Error(rejection, "Failed to report the conditions")
		return
	}
	if p.Open {
		p.Rejection = rejection
	}
	if p.Outcome.Success {
		s.Records.SetRecord(p.ID, p.Before)
		defer s.Records.WaitAgain(p.ID)
	}
	if contested, ok := errors.AsType[*patch.ListConflictError](rejection); ok {
		s.result.Awaited = append(s.result.Awaited, contested.Version)
		if p.Repeat != nil {
			p.Repeat()
		}
		if p.Outcome.Success {
			p.Outcome = progress.Outcome{Err: rejection, Interrupted: true}
		}
		logger.V(1).Info("Another client has changed the same list; the changes of the handler are not written", "error", rejection.Error())
		return
	}
	if p.Open {
		return // the failure is recorded when the attempt is over
	}
	if p.Outcome.Success {
		p.Outcome = p.Policy.Outcome(p.Before, now(), rejection)
		if p.Fail != nil {
			p.Fail()
		}
		s.Records.RecordOutcome(p.ID, p.Outcome, now())
	}
	logger.Error(rejection, "The API server rejected the handler's changes; the attempt failed",
		"attempt", p.Before.Retries, "permanent", p.Outcome.Final, "retryAfter", p.Outcome.Delay.String())
}
