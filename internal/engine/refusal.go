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

// sorting is what has to be known while the shares of a refused change are sent one by one.
type isolation struct {
	seen   client.Object   // as the handlers have been shown it
	partly bool            // the status of all was accepted
	undone []*handlerPatch // that are refused, and of which the status was accepted
}

// refused reports whether the server does not accept what was sent, now and later.
func isRejected(err error) bool {
	_, rejected := errors.AsType[*patch.RejectedError](err)
	_, contested := errors.AsType[*patch.ListConflictError](err)
	return rejected || contested
}

// sort finds out whose share the server does not accept, by sending each alone, and takes that back.
// Those that are accepted are thereby written; the records follow.
func (e *Engine) isolateRejected(ctx context.Context, r *reconciliation, refusal error) error {
	change := r.change
	r.change, r.stopped = nil, true
	r.isolation = &isolation{seen: r.before, partly: change.FirstResponse() != nil}
	if err := e.resumeFrom(r, change); err != nil {
		return err
	}
	if len(r.handlerPatches) == 1 && len(change.FrameworkPatch) == 0 {
		e.rejectPatch(ctx, r, r.handlerPatches[0], r.isolation.partly, refusal)
		r.handlerPatches = nil
	}
	if len(r.handlerPatches) > 1 || len(change.FrameworkPatch) == 0 { // else it may be our part that is rejected, and the report is not
		r.dropConditionReport() // it depends on what comes now
	}
	return e.continueIsolation(ctx, r)
}

// sortRest goes on where it was interrupted.
func (e *Engine) continueIsolation(ctx context.Context, r *reconciliation) error {
	for len(r.handlerPatches) > 0 {
		s := r.handlerPatches[0]
		// As if nothing had been written yet: lists are held against what the handler has seen.
		if s.singleRequest == nil {
			s.singleRequest = &patch.Change{Before: r.isolation.seen, Content: s.base, HandlerPatch: s.doc, ReadUntyped: s.untyped}
		}
		singleRequest := s.singleRequest
		written, err := e.send(ctx, r, singleRequest)
		concurrent, isConcurrent := errors.AsType[*patch.ConcurrentChangeError](err)
		switch {
		case isConcurrent:
			s.singleRequest = withoutFields(ctx, singleRequest, concurrent.Fields)
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
			// It was handled with the rest.
			r.cause.New, r.cause.Old = e.detector.MergeOwn(s.base, r.cause.New, s.doc), e.detector.MergeOwn(s.base, r.cause.Old, s.doc)
			r.edited, r.cause.OutdatedBaseline = true, true
			if err := r.setBase(written); err != nil {
				return err
			}
			if !singleRequest.Recovered { // else it may show changes of other clients
				e.mergeStored(ctx, r, s.doc)
			}
			r.cause.Live = e.detector.Essence.Build(r.content)
		}
		r.handlerPatches = slices.Delete(r.handlerPatches, 0, 1)
	}
	return e.startRevert(r)
}

// refuse withholds a share, and remembers if some of it was written all the same.
func (e *Engine) rejectPatch(ctx context.Context, r *reconciliation, s *handlerPatch, partly bool, refusal error) {
	e.discardPatch(ctx, r, s, refusal)
	if partly {
		r.isolation.undone = append(r.isolation.undone, s)
	}
}

// goOn goes on from what a refused change has made of the object.
func (e *Engine) resumeFrom(r *reconciliation, change *patch.Change) error {
	obj := change.FirstResponse()
	if obj == nil {
		return nil
	}
	e.noteWritten(r, obj)
	return r.setBase(obj)
}

// takeBack has the next write take back what of refused shares was written: that of the last one first, as each was made for what
// those before it had changed. Others may have gone on with it.
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

// leave gives up what was to be taken back, if the server does not accept that: somebody else is faster.
func (e *Engine) abandonRevert(ctx context.Context, r *reconciliation, refusal error) error {
	log.FromContext(ctx).V(1).Info("What was refused is not taken back", "error", refusal.Error())
	change := r.change
	r.revertPatch, r.change = nil, nil
	r.dropConditionReport()
	if err := e.resumeFrom(r, change); err != nil {
		return err
	}
	return r.setBase(r.before)
}

// unreport forgets what conditions were to say about handlers. It is said anew with the next write.
func (r *reconciliation) dropConditionReport() {
	r.handlerPatches = slices.DeleteFunc(r.handlerPatches, func(s *handlerPatch) bool { return s.isReport })
}

// withhold takes a share back that the server does not accept (0005 of the decisions). If its content
// was rejected, the attempt has failed with that; if somebody else was faster, it does not count.
//
// An attempt that has failed by itself stays what it is; only its share is lost.
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
		r.known.SetAwaitedVersion(contested.Version, consistencyTimeout)
		if s.reconcileHandler != nil {
			s.reconcileHandler.dirty = true
		}
		if s.outcome.Success {
			s.outcome = progress.Outcome{Err: refusal, Interrupted: true}
		}
		logger.V(1).Info("What the handler wants to write meets another's change, and is not written", "error", refusal.Error())
		return
	}
	if s.open {
		return // the attempt has failed, and that is told when it ends
	}
	if s.outcome.Success {
		s.outcome = s.policy.Outcome(s.before, now(), refusal)
		if s.reconcileHandler != nil {
			s.reconcileHandler.record = s.before
			s.reconcileHandler.recordOutcome(s.outcome, 0)
		}
		r.state.RecordOutcome(s.id, s.outcome, now())
	}
	logger.Error(refusal, "What the handler wants to write is rejected: the attempt has failed",
		"attempt", s.before.Retries, "forGood", s.outcome.Final, "retryAfter", s.outcome.Delay.String())
}

// refused is how an attempt ends whose share was withheld while its sub-handlers were called.
func (s *handlerPatch) rejectedOutcome(at time.Time) progress.Outcome {
	if _, contested := errors.AsType[*patch.ListConflictError](s.refusal); contested {
		return progress.Outcome{Waiting: true} // it does not count
	}
	return s.policy.Outcome(s.before, at, s.refusal)
}
