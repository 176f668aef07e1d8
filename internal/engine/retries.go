package engine

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/retry"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// requestedCalls are the users' requests to call handlers of one object again, see package retry.
type requestedCalls struct {
	requests []retry.Request
	// reason is the reason to call the handlers if nothing else has happened to the object; empty if something has.
	reason cause.Reason
	// begun are the handlers that this reconcile has made due for their requests.
	begun []string
	// background has the answers for daemons and timers.
	background map[string]retry.Answer
}

// findRequests reads the requests on the object. If nothing else has happened to it, the first request that can be granted becomes the
// cause: an update without a change, or a creation or a resume for handlers that are not called for updates.
func (e *Engine) findRequests(r *reconciliation) {
	r.requested = requestedCalls{requests: e.retries.Find(r.draft.Base())}
	if len(r.requested.requests) == 0 || r.session.Cause.Reason != cause.Noop || r.session.Leaving || IsObjectPaused(r.draft.Base()) {
		return
	}
	for _, one := range r.requested.requests {
		if reason, refusal := e.reasonFor(r, one); refusal == "" {
			r.requested.reason, r.session.Cause = reason, r.session.Cause.WithReason(reason)
			return
		}
	}
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
		if refusal == "" && reason == r.requested.reason && !slices.Contains(r.matching.selection.Selected, one.ID) {
			r.matching.selection.Selected = append(r.matching.selection.Selected, one.ID)
		}
	}
}

// grantRequests makes selected handlers due for new requests. A handler that has finished starts again with its first attempt.
func (e *Engine) grantRequests(ctx context.Context, r *reconciliation) {
	if r.held.isActive() {
		return
	}
	at := now()
	for _, one := range r.requested.requests {
		if _, inBackground := e.BackgroundHandlers.Get(one.ID); inBackground {
			e.runRequested(ctx, r, one)
			continue
		}
		if one.HasBegun || slices.Contains(r.requested.begun, one.ID) || !slices.Contains(r.matching.selection.Selected, one.ID) {
			continue
		}
		r.requested.begun = append(r.requested.begun, one.ID)
		log.FromContext(ctx).Info("Calling the handler on request", "handler", one.ID, "request", one.Text)
		r.session.Records.Redo(one.ID)
		for _, id := range append([]string{one.ID}, r.session.Records.Record(one.ID).Subrefs...) {
			if record := r.session.Records.Record(id); !record.Finished() && record.Delayed.After(at) {
				record.Delayed = at
				r.session.Records.SetRecord(id, record)
			}
		}
	}
}

// runRequested starts a daemon or timer for a request.
func (e *Engine) runRequested(ctx context.Context, r *reconciliation, one retry.Request) {
	answer := retry.Answer{Outcome: retry.Called}
	if !slices.Contains(r.matching.background, one.ID) {
		answer = retry.Answer{Outcome: retry.Refused, Message: "its filters don't match the object"}
	} else if err := e.background.supervisor.RunNow(daemons.Key{UID: r.draft.Base().GetUID(), ID: one.ID}); err != nil {
		answer = retry.Answer{Outcome: retry.Refused, Message: err.Error()}
	} else {
		log.FromContext(ctx).Info("Calling the handler on request", "handler", one.ID, "request", one.Text)
	}
	if r.requested.background == nil {
		r.requested.background = map[string]retry.Answer{}
	}
	r.requested.background[one.ID] = answer
}

// answerRequests returns a function that stores the answers to requests in the object's annotations, or nil if there are none. Answers stay
// until the next cycle ends.
func (r *reconciliation) answerRequests() func(annotations map[string]string) {
	answers := map[int]retry.Answer{}
	for i, one := range r.requested.requests {
		if answer, known := r.answerTo(one); known {
			answers[i] = answer
		}
	}
	forgets := r.session.IsFinished() && r.requested.reason == "" && r.engine.retries.HasAnswers(r.draft.Base())
	if len(answers) == 0 && !forgets {
		return nil
	}
	keys, requests := r.engine.retries, r.requested.requests
	return func(annotations map[string]string) {
		if forgets {
			keys.Forget(annotations)
		}
		for i, answer := range answers {
			keys.Store(annotations, requests[i], answer)
		}
	}
}

func (r *reconciliation) answerTo(one retry.Request) (answer retry.Answer, known bool) {
	isSelected := slices.Contains(r.matching.selection.Selected, one.ID)
	_, inBackground := r.engine.BackgroundHandlers.Get(one.ID)
	switch {
	case inBackground:
		answer, known = r.requested.background[one.ID]
		return answer, known
	case isSelected:
		if !one.HasBegun && !slices.Contains(r.calls.called, one.ID) {
			return retry.Answer{}, false // it waits for other handlers, or it is held
		}
		record := r.session.Records.Record(one.ID)
		answer = retry.Answer{Outcome: outcomeOf(record), Message: record.Message}
		return answer, !one.HasBegun || answer.Outcome != retry.Retrying
	case r.session.Cause.Deleting:
		return retry.Answer{Outcome: retry.Refused, Message: "the handler is not called for objects that are being deleted"}, true
	case r.session.Cause.Reason.HasHandlers() && r.requested.reason == "":
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

// hasUnanswered reports whether a request waits for another reconcile, because a cycle had to end first.
func (r *reconciliation) hasUnanswered() bool {
	return r.session.IsFinished() && slices.ContainsFunc(r.requested.requests, func(one retry.Request) bool {
		_, answered := r.answerTo(one)
		return !answered
	})
}
