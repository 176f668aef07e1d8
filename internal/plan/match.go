package plan

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/go-logr/logr"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/registry"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// Handlers are the cause handlers of a kind.
type Handlers = registry.Registry[invoke.Handler]

// MatchObject checks whether the filters of a handler accept an object. It logs a refusal at V(4).
func MatchObject(log logr.Logger, id string, h invoke.Handler, view *invoke.View, input match.Input) match.Refusal {
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

// MatchCause checks whether a handler whose filters accept the object is called for a cause. It logs a refusal at V(4).
func MatchCause(log logr.Logger, id string, h invoke.Handler, view *invoke.View, c match.Cause, input match.Input) match.Refusal {
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

// Matching returns the ids of the handlers whose filters accept the object, in the order of their registration.
func Matching(log logr.Logger, handlers *Handlers, view *invoke.View, input match.Input) (matching []string) {
	for _, id := range handlers.IDs() {
		if h, _ := handlers.Get(id); MatchObject(log, id, h, view, input).Accepts() {
			matching = append(matching, id)
		}
	}
	return matching
}

// Selection contains the ids of the handlers of a cause.
type Selection struct {
	// Selected are the ids of all handlers of the cause.
	Selected []string
	// Resuming are the ids of the handlers that are selected only because this process sees the object for the first time.
	Resuming []string
}

// Select returns the matching handlers that are called for a cause.
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

// hasOnlyConditions reports whether nothing but conditions has changed. Only handlers for conditions are called for such an update.
func hasOnlyConditions(d diff.Diff) bool {
	return len(d) > 0 && !slices.ContainsFunc(d, func(item diff.Item) bool { return !invoke.IsOfConditions(item) })
}

func catchPanic(log logr.Logger, id string, filter func() match.Refusal) (refusal match.Refusal) {
	defer func() {
		if value := recover(); value != nil {
			log.Error(fmt.Errorf("panic: %v", value), "A filter panicked: its handler is not called", "handler", id, "stack", string(debug.Stack()))
			refusal = match.Refusal{Rule: match.Panicked}
		}
	}()
	return filter()
}
