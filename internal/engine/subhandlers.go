package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// callSubHandlers calls the due sub-handlers that a handler has declared, and returns the outcome of the handler. The handler succeeds when all
// sub-handlers have finished. Until then, the handler waits, and is called again to declare them. Waiting does not count as an attempt.
func (e *Engine) callSubHandlers(ctx context.Context, r *reconciliation, parent string, h invoke.Handler, subs []invoke.SubHandler) progress.Outcome {
	ids, handlers, err := e.selectSubHandlers(ctx, r, parent, h, subs)
	if err != nil {
		return progress.Outcome{Err: progress.Permanent(err), Final: true, Attempted: true}
	}
	if err := r.Records.Adopt(e.Store, r.Base(), parent, ids, now()); err != nil {
		log.FromContext(ctx).Info("Stored progress is unreadable and treated as absent", "error", err.Error())
	}
	for _, id := range plan.Choose(e.Lifecycle, r.Records.Record, r.Records.DueBelow(parent, now())) {
		if !e.callCauseHandler(ctx, r, id, handlers[id]) {
			return progress.Outcome{Waiting: true} // the next reconcile continues
		}
	}
	delay, left := r.Records.DelayBelow(parent, now())
	if !left {
		return progress.Outcome{Final: true, Success: true, Attempted: true}
	}
	return progress.Outcome{Waiting: true, Delay: delay}
}

// selectSubHandlers checks the declarations and applies the filters. Sub-handlers are called for all causes of their parent.
func (e *Engine) selectSubHandlers(ctx context.Context, r *reconciliation, parent string, h invoke.Handler, subs []invoke.SubHandler) ([]string, map[string]invoke.Handler, error) {
	var ids []string
	var mistakes []error
	keys, handlers := map[string]string{}, map[string]invoke.Handler{}
	checker, _ := e.Store.(progress.KeyChecker)
	for _, sub := range subs {
		key := sub.ID
		if checker != nil {
			var err error
			if key, err = checker.Key(sub.ID); err != nil {
				mistakes = append(mistakes, err)
				continue
			}
		}
		if taken, ok := keys[key]; ok || slices.Contains(e.Handlers.IDs(), sub.ID) {
			mistakes = append(mistakes, fmt.Errorf("the sub-handler %q has the id of another one (%s): give each its own", sub.ID, orDefault(taken, sub.ID)))
			continue
		}
		if f := sub.Field; f != nil && !e.detector.Essence.Keeps(f.Path) {
			path := validation.JoinFieldPath(f.Path)
			mistakes = append(mistakes, fmt.Errorf("the sub-handler %q: Field(%q) can never match, because the last-handled configuration does not contain the field: "+
				"check the field in the handler, or add a handler with this Field to the resource", sub.ID, path))
			continue
		}
		sub.Warnings, sub.RetriesOnRelatedChange = h.Warnings, h.RetriesOnRelatedChange
		sub.MetricLabel = strings.TrimSuffix(orDefault(h.MetricLabel, parent), "/*") + "/*"
		keys[key], handlers[sub.ID] = sub.ID, sub.Handler
		if e.subHandlerMatches(ctx, r, h, sub) {
			ids = append(ids, sub.ID)
		}
	}
	if err := errors.Join(mistakes...); err != nil {
		return nil, nil, fmt.Errorf("the sub-handlers of %q: %w", parent, err)
	}
	return ids, handlers, nil
}

func orDefault(taken, id string) string {
	if taken == "" {
		return id
	}
	return taken
}

// subHandlerMatches applies the filters of a sub-handler. If its parent receives a diff, the field of the sub-handler must have changed.
func (e *Engine) subHandlerMatches(ctx context.Context, r *reconciliation, parent invoke.Handler, sub invoke.SubHandler) bool {
	if !plan.MatchObject(log.FromContext(ctx), sub.ID, sub.Handler, r.matching.view, r.subject()).Accepts() {
		return false
	}
	if !parent.ReceivesDiff(string(r.Cause.Reason)) {
		return true
	}
	h := sub.Handler
	h.AnyReason = true
	return plan.MatchCause(log.FromContext(ctx), sub.ID, h, r.matching.view, match.Cause{Reason: string(r.Cause.Reason), Deleting: r.Cause.Deleting}, r.subject()).Accepts()
}
