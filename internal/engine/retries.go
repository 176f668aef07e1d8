package engine

import (
	"context"
	"errors"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/retry"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// requestedCalls are the users' requests to call handlers of one object again, see package retry.
type requestedCalls struct {
	requests []retry.Request
	// begun are the handlers that this reconcile has made due for their requests.
	begun []string
	// background has the answers for daemons and timers.
	background map[string]retry.Answer
	// waits is true if a daemon or timer could not be started yet.
	waits bool
}

// findRequests reads the requests on the object. If nothing else has happened to it, the first request that can be granted becomes the
// cause: an update without a change, or a creation or a resume for handlers that are not called for updates.
func (e *Engine) findRequests(r *reconciliation) {
	r.requested = requestedCalls{requests: e.retries.Find(r.draft.Base())}
	for i := range r.requested.requests {
		one := &r.requested.requests[i]
		if record := r.session.Records.Record(one.ID); record.Started.IsZero() || record.Finished() {
			one.HasBegun = false // the stored answer belongs to an earlier request with the same text
		}
		if one.HasBegun {
			r.session.Records.Keep(one.ID)
		}
	}
	if !r.hasNoCause() || !r.mayAnswer() {
		return
	}
	for _, one := range r.requested.requests {
		if reason, refusal := e.reasonFor(r, one); refusal == "" {
			r.session.Cause = r.session.Cause.Request(reason)
			return
		}
	}
}

// mayAnswer returns false if requests must stay as they are: while the object is paused, and if it is no longer the operator's.
func (r *reconciliation) mayAnswer() bool {
	return !r.session.Leaving && !r.session.Gone && !IsObjectPaused(r.draft.Base())
}

// reasonFor returns the reason for which a request's handler is called if nothing else has happened to the object, or why it isn't.
func (e *Engine) reasonFor(r *reconciliation, one retry.Request) (reason cause.Reason, refusal string) {
	handler, known := e.Handlers.Get(one.ID)
	switch {
	case !known:
		return "", "there is no cause handler, daemon or timer with this id: use one that kopf why shows, and the parent of a sub-handler"
	case !slices.Contains(r.matching.handlers, one.ID):
		return "", "the handler's filters don't match the object"
	case handler.AnyReason:
		return cause.Update, ""
	}
	for _, reason := range []cause.Reason{cause.Update, cause.Create, cause.Resume} {
		if slices.Contains(handler.Reasons, string(reason)) {
			return reason, ""
		}
	}
	return "", "the handler is only called for objects that are being deleted"
}

// selectRequested selects the handlers of the requests if these are the only cause.
func (r *reconciliation) selectRequested() {
	for _, one := range r.requested.requests {
		reason, refusal := r.engine.reasonFor(r, one)
		if refusal == "" && reason == r.session.Cause.Reason && !slices.Contains(r.matching.selection.Selected, one.ID) {
			r.matching.selection.Selected = append(r.matching.selection.Selected, one.ID)
		}
	}
}

// grantRequests makes selected handlers due for new requests, and starts daemons and timers. A handler that has finished starts again with
// its first attempt.
func (e *Engine) grantRequests(ctx context.Context, r *reconciliation) {
	at := now()
	for _, one := range r.requested.requests {
		if _, inBackground := e.BackgroundHandlers.Get(one.ID); inBackground {
			e.runRequested(ctx, r, one)
			continue
		}
		if r.held.isActive() || one.HasBegun || slices.Contains(r.requested.begun, one.ID) || !slices.Contains(r.matching.selection.Selected, one.ID) {
			continue
		}
		r.requested.begun = append(r.requested.begun, one.ID)
		r.session.Records.Redo(one.ID)
		r.details.Resumed = slices.DeleteFunc(r.details.Resumed, func(id string) bool { return id == one.ID })
		for _, id := range append([]string{one.ID}, r.session.Records.Record(one.ID).Subrefs...) {
			if record := r.session.Records.Record(id); !record.Finished() && record.Delayed.After(at) {
				record.Delayed = at
				r.session.Records.SetRecord(id, record)
			}
		}
	}
}

// logRequested logs which of the handlers that are about to be called were requested.
func (r *reconciliation) logRequested(ctx context.Context) {
	for _, one := range r.requested.requests {
		if slices.Contains(r.requested.begun, one.ID) && slices.Contains(r.calls.plan.Next, one.ID) {
			log.FromContext(ctx).Info("Calling the handler on request", "handler", one.ID, "request", one.Text)
		}
	}
}

// runRequested starts a daemon or timer for a request.
func (e *Engine) runRequested(ctx context.Context, r *reconciliation, one retry.Request) {
	answer := retry.Answer{Outcome: retry.Called}
	if r.session.Cause.Deleting {
		answer = retry.Answer{Outcome: retry.Refused, Message: "the object is being deleted"}
	} else if !slices.Contains(r.matching.background, one.ID) {
		answer = retry.Answer{Outcome: retry.Refused, Message: "its filters don't match the object"}
	} else if err := e.background.supervisor.RunNow(daemons.Key{UID: r.draft.Base().GetUID(), ID: one.ID}); errors.Is(err, daemons.ErrPaused) {
		r.requested.waits = true
		return
	} else if err != nil {
		answer = retry.Answer{Outcome: retry.Refused, Message: err.Error()}
	} else {
		log.FromContext(ctx).Info("Calling the handler on request", "handler", one.ID, "request", one.Text)
	}
	if r.requested.background == nil {
		r.requested.background = map[string]retry.Answer{}
	}
	r.requested.background[one.ID] = answer
}

// answerRequests stores the answers to requests in the object's annotations, as far as they are known. It removes earlier answers when a
// cycle ends, and those to withdrawn requests at once.
func (r *reconciliation) answerRequests(annotations map[string]string) {
	keys := r.engine.retries
	if keys == nil || !r.mayAnswer() {
		return
	}
	keys.Forget(annotations, r.session.IsFinished() && (!r.session.Cause.Requested || r.session.Cause.Reason == cause.Revision))
	for _, one := range r.requested.requests {
		if answer, known := r.answerTo(one); known {
			keys.Store(annotations, one, answer)
		}
	}
}

// hasAnswers reports whether there is something to write for requests, even if nothing else has happened.
func (r *reconciliation) hasAnswers() bool {
	return r.mayAnswer() && (r.engine.retries.HasWithdrawn(r.draft.Base()) ||
		slices.ContainsFunc(r.requested.requests, func(one retry.Request) bool {
			_, known := r.answerTo(one)
			return known
		}))
}

func (r *reconciliation) answerTo(one retry.Request) (answer retry.Answer, known bool) {
	isSelected := slices.Contains(r.matching.selection.Selected, one.ID)
	_, inBackground := r.engine.BackgroundHandlers.Get(one.ID)
	switch {
	case inBackground:
		answer, known = r.requested.background[one.ID]
		return answer, known
	case isSelected:
		record := r.session.Records.Record(one.ID)
		isSkipped := record.Finished() && slices.Contains(r.requested.begun, one.ID) // because a handler before it has failed
		if !one.HasBegun && !isSkipped && !slices.Contains(r.calls.called, one.ID) {
			return retry.Answer{}, false // it waits for other handlers, or it is held
		}
		answer = retry.Answer{Outcome: outcomeOf(record), Message: record.Message}
		return answer, !one.HasBegun || answer.Outcome != retry.Retrying
	case r.session.Cause.Deleting:
		return retry.Answer{Outcome: retry.Refused, Message: "the handler is not called for objects that are being deleted"}, true
	case r.session.Cause.Reason.HasHandlers() && !r.session.Cause.Requested:
		return retry.Answer{}, false // it waits until the cycle is over
	}
	_, refusal := r.engine.reasonFor(r, one)
	return retry.Answer{Outcome: retry.Refused, Message: refusal}, refusal != ""
}

func outcomeOf(record progress.Record) retry.Outcome {
	switch {
	case record.Success:
		return retry.Succeeded
	case record.Failure:
		return retry.Failed
	default:
		return retry.Retrying
	}
}

// hasUnanswered reports whether a request waits for another reconcile, because a cycle or a pause had to end first.
func (r *reconciliation) hasUnanswered() bool {
	return r.requested.waits || r.session.IsFinished() && slices.ContainsFunc(r.requested.requests, func(one retry.Request) bool {
		_, answered := r.answerTo(one)
		return !answered
	})
}
