package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// parent is a handler whose sub-handlers are being called.
type parent struct {
	id       string
	handler  *invoke.Handler
	before   progress.Record // the record before the attempt that declared the sub-handlers
	deadline time.Time       // no sub-handler is called after it; zero if there is none
}

// callSubHandlers calls the due sub-handlers that a handler has declared, and returns the handler's outcome. The handler succeeds when all
// of them have finished. Until then it waits, and is called again to declare them. Waiting doesn't count as an attempt, but the handler's
// timeout keeps running.
func (e *Engine) callSubHandlers(ctx context.Context, r *reconciliation, p parent, subs []invoke.SubHandler) progress.Outcome {
	ids, handlers, err := e.selectSubHandlers(ctx, r, p.id, p.handler, subs)
	if err != nil {
		return progress.Outcome{Err: progress.Permanent(err), Final: true, Attempted: true}
	}
	if err := r.session.Records.Adopt(e.Store, r.draft.Base(), p.id, ids, now()); err != nil {
		log.FromContext(ctx).Info("Stored progress is unreadable and treated as absent", "error", err.Error())
	}
	due := r.session.Records.DueBelow(p.id, now())
	chosen := plan.Choose(e.Lifecycle, r.session.Records.Record, due)
	for _, id := range chosen {
		if !p.deadline.IsZero() && !now().Before(p.deadline) {
			break
		}
		if !e.callCauseHandler(ctx, r, id, handlers[id], p.deadline) {
			return progress.Outcome{Waiting: true} // the next reconcile continues
		}
	}
	delay, left := r.session.Records.DelayBelow(p.id, now())
	if !left {
		return progress.Outcome{Final: true, Success: true, Attempted: true}
	}
	if len(chosen) == 0 && len(due) > 0 {
		delay = plan.RefusalDelay
	}
	return p.handler.Policy.Wait(p.before, now(), delay)
}

// deadlineOf returns the time after which an attempt calls no more sub-handlers: when the handler's timeout is over, or its own deadline if
// that comes first. If the first attempt begins after the timeout, it still calls each sub-handler once.
func deadlineOf(h *invoke.Handler, before progress.Record, began, deadline time.Time) time.Time {
	if h.Policy.Timeout == nil || before.Started.IsZero() {
		return deadline
	}
	end := before.Started.Add(*h.Policy.Timeout)
	if !end.After(began) || !deadline.IsZero() && deadline.Before(end) {
		return deadline
	}
	return end
}

// subFinished returns the function that reports whether one of a handler's sub-handlers needs no call.
func (e *Engine) subFinished(ctx context.Context, r *reconciliation, h *invoke.Handler) func(invoke.SubHandler) bool {
	return func(sub invoke.SubHandler) bool {
		if _, err := e.checkSubHandler(sub); err != nil {
			return false // the handler fails once it has returned
		}
		return r.session.Records.HasFinished(sub.ID) || !e.subHandlerMatches(ctx, r, h, sub)
	}
}

// abandonSubHandlers gives up the unfinished sub-handlers of a handler that has finished without them, because it has failed or hasn't
// declared them again. It returns the handler's outcome. If the handler has failed because of its timeout, the error names the
// sub-handlers.
func (e *Engine) abandonSubHandlers(ctx context.Context, r *reconciliation, id string, outcome progress.Outcome, declared []invoke.SubHandler) progress.Outcome {
	if !outcome.Final {
		return outcome
	}
	unfinished, failed := r.session.Records.UnfinishedBelow(id), !outcome.Success || outcome.Err != nil
	if !failed { // filters of declared ones no longer match
		unfinished = slices.DeleteFunc(unfinished, func(one string) bool {
			return slices.ContainsFunc(declared, func(sub invoke.SubHandler) bool { return isOneOf([]string{sub.ID}, one) })
		})
	}
	if len(unfinished) == 0 {
		return outcome
	}
	text, reason := r.describeSubHandlers(unfinished), fmt.Errorf("not called again, because %q has failed", id)
	if failed {
		log.FromContext(ctx).Info("Sub-handlers are not called any more, because their handler has failed", "handler", id, "subHandlers", text)
	} else {
		reason = fmt.Errorf("not declared again by %q before it had finished", id)
		log.FromContext(ctx).Info("Sub-handlers were not declared again before they had finished; they are not called any more", "handler", id, "subHandlers", text)
		e.events.Warn(r.draft.Base(), "SubHandlersDropped", fmt.Sprintf("%s has not declared its unfinished sub-handlers again: %s", id, text))
	}
	r.session.Records.Abandon(unfinished, reason, now())
	if limit, ok := errors.AsType[*progress.LimitError](outcome.Err); ok && limit.Err == nil {
		outcome.Err = &progress.LimitError{Limit: limit.Limit, Err: progress.Temporary(errors.New("unfinished sub-handlers: "+text), 0)}
	}
	return outcome
}

// maxDescribed is how many sub-handlers a message names.
const maxDescribed = 10

// describeSubHandlers returns the sub-handlers' ids with their last errors.
func (r *reconciliation) describeSubHandlers(ids []string) string {
	var texts []string
	for _, id := range ids[:min(len(ids), maxDescribed)] {
		if message := r.session.Records.Record(id).Message; message != "" {
			id += " (" + message + ")"
		}
		texts = append(texts, id)
	}
	if more := len(ids) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

// selectSubHandlers checks the declarations and applies the filters. Sub-handlers are called for all of their parent's causes.
func (e *Engine) selectSubHandlers(ctx context.Context, r *reconciliation, parent string, h *invoke.Handler, subs []invoke.SubHandler) ([]string, map[string]*invoke.Handler, error) {
	var ids []string
	var mistakes []error
	keys, handlers := map[string]string{}, map[string]*invoke.Handler{}
	for _, sub := range subs {
		key, err := e.checkSubHandler(sub)
		if taken, ok := keys[key]; ok && err == nil {
			err = errDuplicateSub(sub.ID, taken)
		}
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		keys[key] = sub.ID
		if e.subHandlerMatches(ctx, r, h, sub) {
			ids = append(ids, sub.ID)
		}
		sub.Inherit(parent, h)
		handlers[sub.ID] = e.withDefaults(&sub.Handler)
	}
	if err := errors.Join(mistakes...); err != nil {
		return nil, nil, fmt.Errorf("the sub-handlers of %q: %w", parent, err)
	}
	return ids, handlers, nil
}

// checkSubHandler checks a sub-handler's declaration and returns the key of its record.
func (e *Engine) checkSubHandler(sub invoke.SubHandler) (key string, err error) {
	key = sub.ID
	if checker, ok := e.Store.(progress.KeyChecker); ok {
		if key, err = checker.Key(sub.ID); err != nil {
			return "", err
		}
	}
	if slices.Contains(e.Handlers.IDs(), sub.ID) {
		return "", errDuplicateSub(sub.ID, sub.ID)
	}
	if f := sub.Field; f != nil && !e.detector.Essence.Keeps(f.Path) {
		path := validation.JoinFieldPath(f.Path)
		return "", fmt.Errorf("the sub-handler %q: Field(%q) can never match, because the last-handled configuration does not contain the field: "+
			"check the field in the handler, or add a handler with this Field to the resource", sub.ID, path)
	}
	return key, nil
}

func errDuplicateSub(id, taken string) error {
	return fmt.Errorf("the sub-handler %q has the id of another one (%s): give each its own", id, taken)
}

// subHandlerMatches applies a sub-handler's filters. If its parent receives a diff, the sub-handler's field must have changed.
func (e *Engine) subHandlerMatches(ctx context.Context, r *reconciliation, parent *invoke.Handler, sub invoke.SubHandler) bool {
	if !plan.MatchObject(log.FromContext(ctx), sub.ID, &sub.Handler, r.matching.view, r.subject()).Accepts() {
		return false
	}
	if sub.Field == nil || !parent.ReceivesDiff(string(r.session.Cause.Reason)) {
		return true
	}
	h := new(sub.Handler)
	h.AnyReason = true
	return plan.MatchCause(log.FromContext(ctx), sub.ID, h, r.matching.view, match.Cause{Reason: string(r.session.Cause.Reason), Deleting: r.session.Cause.Deleting}, r.subject()).Accepts()
}
