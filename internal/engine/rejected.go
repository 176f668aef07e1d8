package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// isolation is the state while the patches of a rejected change are written one by one.
type isolation struct {
	seen   client.Object   // the object that the handlers have received
	partly bool            // the status of the whole change was written
	undone []*handlerPatch // the rejected patches whose status was written
}

// isRejected reports whether a repetition of the request cannot succeed.
func isRejected(err error) bool {
	_, rejected := errors.AsType[*patch.RejectedError](err)
	_, contested := errors.AsType[*patch.ListConflictError](err)
	return rejected || contested
}

// isolateRejected finds the handler whose patch the API server rejects: it writes the patch of each handler in a separate request. Accepted patches are
// thereby written; the next write stores the records and reverts what was written of the rejected ones.
func (e *Engine) isolateRejected(ctx context.Context, r *reconciliation, refusal error) error {
	change := r.change
	r.change, r.aborted = nil, true
	r.isolation = &isolation{seen: r.before, partly: change.FirstResponse() != nil}
	if err := e.resumeFrom(r, change); err != nil {
		return err
	}
	if len(r.handlerPatches) == 1 && len(change.FrameworkPatch) == 0 {
		e.rejectPatch(ctx, r, r.handlerPatches[0], r.isolation.partly, refusal)
		r.handlerPatches = nil
	}
	if len(r.handlerPatches) > 1 || len(change.FrameworkPatch) == 0 { // otherwise the framework's part may be the rejected one
		r.dropConditionReport() // it depends on the following outcomes
	}
	return e.continueIsolation(ctx, r)
}

// continueIsolation writes the remaining patches.
func (e *Engine) continueIsolation(ctx context.Context, r *reconciliation) error {
	for len(r.handlerPatches) > 0 {
		s := r.handlerPatches[0]
		// The patch is based on the object that the handler has received, so that concurrent changes of lists are detected.
		if s.singleRequest == nil {
			s.singleRequest = &patch.Change{Before: r.isolation.seen, Content: s.base, HandlerPatch: s.doc, ReadUntyped: s.untyped}
		}
		singleRequest := s.singleRequest
		written, err := e.send(ctx, r, singleRequest)
		concurrent, isConcurrent := errors.AsType[*patch.ConcurrentChangeError](err)
		switch {
		case isConcurrent:
			s.singleRequest = dropOverwrittenFields(ctx, singleRequest, concurrent.Fields)
			s.doc = s.singleRequest.HandlerPatch
			continue
		case isRejected(err):
			e.rejectPatch(ctx, r, s, r.isolation.partly || singleRequest.FirstResponse() != nil, err)
			if err := e.resumeFrom(r, singleRequest); err != nil {
				return err
			}
		case err != nil:
			r.known.Worker.PendingWrite = r
			return fmt.Errorf("writing the object: %w", err)
		case written != nil:
			e.reportDropped(ctx, singleRequest, s.id, s.doc)
			r.cause.New, r.cause.Old = e.detector.MergeOwn(s.base, r.cause.New, s.doc), e.detector.MergeOwn(s.base, r.cause.Old, s.doc)
			r.edited, r.cause.OutdatedBaseline = true, true
			if err := r.setBase(written); err != nil {
				return err
			}
			if !singleRequest.Recovered { // otherwise the object may contain changes of other clients
				e.mergeStored(ctx, r, s.doc)
			}
			r.cause.Live = e.detector.Essence.Build(r.content)
		}
		r.handlerPatches = slices.Delete(r.handlerPatches, 0, 1)
	}
	return e.startRevert(r)
}

// rejectPatch discards a rejected patch, and records it for a revert if its status was written.
func (e *Engine) rejectPatch(ctx context.Context, r *reconciliation, s *handlerPatch, partly bool, refusal error) {
	e.discardPatch(ctx, r, s, refusal)
	if partly {
		r.isolation.undone = append(r.isolation.undone, s)
	}
}

// resumeFrom bases the reconcile on the state of the object after the accepted request of a rejected change.
func (e *Engine) resumeFrom(r *reconciliation, change *patch.Change) error {
	obj := change.FirstResponse()
	if obj == nil {
		return nil
	}
	e.noteWritten(r, obj)
	return r.setBase(obj)
}

// startRevert prepares the revert of the rejected patches whose status was written: the last patch first, because each was computed after those before it.
// Values that another client has changed since are not reverted.
func (e *Engine) startRevert(r *reconciliation) error {
	undone := r.isolation.undone
	r.isolation = nil
	if err := r.setBase(r.before); err != nil {
		return err
	}
	content := r.content
	r.revertPatch = nil
	for _, s := range slices.Backward(undone) {
		back := s.doc.StatusPart().Revert(s.base, content)
		r.revertPatch, content = patch.Merge(r.revertPatch, back), back.Apply(content)
	}
	return e.applyChanges(r, r.revertPatch)
}

// abandonRevert gives up a revert that the API server rejects.
func (e *Engine) abandonRevert(ctx context.Context, r *reconciliation, refusal error) error {
	log.FromContext(ctx).V(1).Info("Failed to revert the rejected change", "error", refusal.Error())
	change := r.change
	r.revertPatch, r.change = nil, nil
	r.dropConditionReport()
	if err := e.resumeFrom(r, change); err != nil {
		return err
	}
	return r.setBase(r.before)
}

// dropConditionReport removes the conditions that report handlers from the pending changes. The next write computes them again.
func (r *reconciliation) dropConditionReport() {
	r.handlerPatches = slices.DeleteFunc(r.handlerPatches, func(s *handlerPatch) bool { return s.isReport })
}

// discardPatch removes the patch of a handler that the API server does not accept. If the content is rejected, the attempt has failed. If another client
// has changed the same list, the attempt does not count.
//
// An attempt that has returned an error keeps its outcome; only its patch is lost.
func (e *Engine) discardPatch(ctx context.Context, r *reconciliation, s *handlerPatch, refusal error) {
	logger := log.FromContext(ctx).WithValues("handler", s.id)
	if s.isReport {
		r.reportRejected = true
		logger.Error(refusal, "Failed to report the conditions")
		return
	}
	if s.open {
		s.refusal = refusal
	}
	if s.outcome.Success {
		r.state.SetRecord(s.id, s.before)
		defer r.state.WaitAgain(s.id)
	}
	if contested, ok := errors.AsType[*patch.ListConflictError](refusal); ok {
		r.known.SetAwaitedVersion(contested.Version, e.ConsistencyTimeout)
		if s.reconcileHandler != nil {
			s.reconcileHandler.dirty = true
		}
		if s.outcome.Success {
			s.outcome = progress.Outcome{Err: refusal, Interrupted: true}
		}
		logger.V(1).Info("Another client has changed the same list; the changes of the handler are not written", "error", refusal.Error())
		return
	}
	if s.open {
		return // the failure is recorded when the attempt ends
	}
	if s.outcome.Success {
		s.outcome = s.policy.Outcome(s.before, now(), refusal)
		if s.reconcileHandler != nil {
			s.reconcileHandler.record = s.before
			s.reconcileHandler.recordOutcome(s.outcome, 0)
		}
		r.state.RecordOutcome(s.id, s.outcome, now())
	}
	logger.Error(refusal, "The API server rejects the changes of the handler: the attempt has failed",
		"attempt", s.before.Retries, "permanent", s.outcome.Final, "retryAfter", s.outcome.Delay.String())
}

// rejectedOutcome returns the outcome of an attempt whose patch was rejected while its sub-handlers were called.
func (s *handlerPatch) rejectedOutcome(at time.Time) progress.Outcome {
	if _, contested := errors.AsType[*patch.ListConflictError](s.refusal); contested {
		return progress.Outcome{Waiting: true} // the attempt does not count
	}
	return s.policy.Outcome(s.before, at, s.refusal)
}
