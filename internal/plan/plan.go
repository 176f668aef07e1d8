package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Handlers are the cause handlers of one kind.
type Handlers = invoke.Registry[*invoke.Handler]

// MatchObject checks whether a handler's filters accept an object. It logs refusals at V(4).
func MatchObject(log logr.Logger, id string, h *invoke.Handler, view *invoke.View, input match.Input) match.Refusal {
	refusal := catchPanic(log, id, func() match.Refusal {
		if refusal := h.MatchObject(input); !refusal.Accepts() {
			return refusal
		}
		for _, when := range h.When {
			if !when(view.PredicateRequest()) {
				return match.Refusal{Rule: match.When}
			}
		}
		return match.Refusal{}
	})
	if logger := log.V(4); !refusal.Accepts() && logger.Enabled() {
		logger.Info("Handler does not match", "handler", id, "why", refusal.String())
	}
	return refusal
}

// MatchCause checks whether a handler is called for a cause. Its filters must already have accepted the object. Refusals are logged at
// V(4).
func MatchCause(log logr.Logger, id string, h *invoke.Handler, view *invoke.View, c match.Cause, input match.Input) match.Refusal {
	refusal := catchPanic(log, id, func() match.Refusal {
		if refusal := h.MatchCause(c, input); !refusal.Accepts() {
			return refusal
		}
		if h.Field == nil && c.Reason == string(cause.Update) && hasOnlyConditions(view.Diff) {
			return match.Refusal{Rule: match.OnlyConditions}
		}
		if h.Changed != nil && !h.Changed(view.PredicateRequest()) {
			return match.Refusal{Rule: match.Unrelated}
		}
		return match.Refusal{}
	})
	if logger := log.V(4); !refusal.Accepts() && logger.Enabled() {
		logger.Info("Handler not selected", "handler", id, "reason", c.Reason, "why", refusal.String())
	}
	return refusal
}

// Matching returns the ids of the handlers whose filters accept the object, in order of registration.
func Matching(log logr.Logger, handlers *Handlers, view *invoke.View, input match.Input) (matching []string) {
	for _, id := range handlers.IDs() {
		if h, _ := handlers.Get(id); MatchObject(log, id, h, view, input).Accepts() {
			matching = append(matching, id)
		}
	}
	return matching
}

// Selection contains the ids of the handlers to call for a cause.
type Selection struct {
	// Selected are all handlers of the cause.
	Selected []string
	// Resuming are those that are selected only because this process sees the object for the first time.
	Resuming []string
}

// Select picks the matching handlers that are called for a cause.
func Select(log logr.Logger, handlers *Handlers, matching []string, view *invoke.View, c match.Cause, input match.Input) (s Selection) {
	for _, id := range matching {
		h, _ := handlers.Get(id)
		if !MatchCause(log, id, h, view, c, input).Accepts() {
			continue
		}
		s.Selected = append(s.Selected, id)
		if h.SelectedOnlyByResume(c, input) {
			s.Resuming = append(s.Resuming, id)
		}
	}
	return s
}

// hasOnlyConditions reports whether only conditions have changed. Then only handlers for conditions are called.
func hasOnlyConditions(d diff.Diff) bool {
	return len(d) > 0 && !slices.ContainsFunc(d, func(item diff.Item) bool { return !invoke.IsOfConditions(item) })
}

func catchPanic(log logr.Logger, id string, filter func() match.Refusal) (refusal match.Refusal) {
	err := guard.Catch("", func() error { refusal = filter(); return nil })
	if err != nil {
		log.Error(err, "A filter panicked: its handler is not called", "handler", id, "stack", guard.Trace(err))
		return match.Refusal{Rule: match.Panicked}
	}
	return refusal
}

// Records returns a handler's stored progress, or the zero record if it was not called yet.
type Records func(id string) progress.Record

// Plan contains the handlers to call now.
type Plan struct {
	// Next are the ids of the handlers to call, in order.
	Next []string
	// Blocked are the ids of the handlers that wait for another handler to succeed.
	Blocked []string
	// Skipped are the handlers that are never called for the cause, because one they come after has failed.
	Skipped []Skip
	// Limited is true if the lifecycle has put off some of the due handlers to a later reconcile.
	Limited bool
	// Refused is true if the lifecycle has chosen none of the due handlers.
	Refused bool
}

// Skip is a handler that isn't called, because the handler After has failed.
type Skip struct{ ID, After string }

// Err returns the permanent error that the handler fails with.
func (s Skip) Err() error {
	return progress.Permanent(fmt.Errorf("it comes after %q, which has failed", s.After))
}

// Make plans the calls of the selected handlers. called are those that were already called in this reconcile. The lifecycle chooses from
// these and the due ones together. So if it calls one handler at a time, each outcome is stored before the next call.
func Make(handlers *Handlers, selected, called []string, records Records, lifecycle progress.Lifecycle, now time.Time) (p Plan) {
	var due []string
	for repeat := true; repeat; { // this may skip even handlers that were registered before it
		due, p.Blocked, repeat = nil, nil, false
		for _, id := range selected {
			record := records(id)
			if record.Finished() || p.hasSkipped(id) {
				continue
			}
			switch first, failed := p.blockingPredecessor(handlers, selected, records, id); {
			case failed:
				p.Skipped, repeat = append(p.Skipped, Skip{id, first}), true
			case first != "":
				p.Blocked = append(p.Blocked, id)
			case record.Due(now) && !slices.Contains(called, id):
				due = append(due, id)
			}
		}
	}
	p.Next = Choose(lifecycle, records, due)
	p.Refused = len(p.Next) == 0 && len(due) > 0
	if len(called) > 0 {
		room := len(Choose(lifecycle, records, slices.Concat(called, due))) - len(called)
		p.Next = p.Next[:max(0, min(room, len(p.Next)))]
	}
	p.Limited = len(p.Next) < len(due)
	return p
}

func (p Plan) hasSkipped(id string) bool {
	return slices.ContainsFunc(p.Skipped, func(s Skip) bool { return s.ID == id })
}

// blockingPredecessor returns the first handler that must succeed before the given one is called, and whether it has failed.
func (p Plan) blockingPredecessor(handlers *Handlers, selected []string, records Records, id string) (first string, failed bool) {
	h, _ := handlers.Get(id)
	for _, first := range h.After {
		if record := records(first); slices.Contains(selected, first) && !record.Success {
			return first, record.Failure || p.hasSkipped(first)
		}
	}
	return "", false
}

// Choose lets the lifecycle choose from the due handlers. It ignores repeated ids and ids that aren't due.
func Choose(lifecycle progress.Lifecycle, records Records, due []string) (chosen []string) {
	for _, id := range lifecycle(slices.Clone(due), records) {
		if slices.Contains(due, id) && !slices.Contains(chosen, id) {
			chosen = append(chosen, id)
		}
	}
	return chosen
}

// RefusalDelay is how long to wait after the lifecycle has chosen none of the due handlers.
const RefusalDelay = time.Second

// Situation is the state of a cause at the end of a reconcile.
type Situation struct {
	Reason cause.Reason
	// Finished is true if all handlers of the cause have finished and their outcomes are stored.
	Finished bool
	// Edited is true if the object was edited after the cycle began.
	Edited bool
	// Plan is the reconcile's last plan.
	Plan Plan
}

// Schedule returns the time until the object must be reconciled again, and false if nothing is left to do. Every reconcile computes it anew
// from the stored progress, so a restart loses no delay.
func Schedule(s Situation, state *progress.State, now time.Time) (delay time.Duration, left bool) {
	switch {
	case s.Reason == cause.Noop, s.Finished && !s.Edited:
		return state.StaleAfter(now) // until records of an earlier cause can be removed
	case !s.Reason.HasHandlers():
		return 0, false
	case s.Finished:
		return 0, true // no further event would trigger a reconcile for the edit
	}
	delay, left = state.Delay(now, s.Plan.Blocked...)
	if left && delay == 0 && s.Plan.Refused {
		delay = RefusalDelay
	}
	return delay, left
}
