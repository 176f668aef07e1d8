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

// MatchObject reports whether the filters of a handler accept an object. It logs the reason at V(4) if they do not.
func MatchObject(log logr.Logger, id string, h invoke.Handler, view *invoke.View, input match.Input) bool {
	why := catchPanic(log, id, func() string {
		if ok, why := h.MatchObject(input); !ok {
			return why
		}
		for _, when := range h.When {
			if !when(view.PredicateRequest()) {
				return "its When does not match"
			}
		}
		return ""
	})
	if why != "" {
		log.V(4).Info("Handler does not match", "handler", id, "why", why)
	}
	return why == ""
}

// MatchCause reports whether a handler whose filters accept the object is called for a cause. It logs the reason at V(4) if it is not.
func MatchCause(log logr.Logger, id string, h invoke.Handler, view *invoke.View, c match.Cause, input match.Input) bool {
	why := catchPanic(log, id, func() string {
		if ok, why := h.MatchCause(c, input); !ok {
			return why
		}
		if h.Field == nil && c.Reason == string(cause.Update) && hasOnlyConditions(view.Diff) {
			return "only conditions have changed, and it is not for them"
		}
		if h.Changed != nil && !h.Changed(view.PredicateRequest()) {
			return "what it looks at has not changed"
		}
		return ""
	})
	if why != "" {
		log.V(4).Info("Handler not selected", "handler", id, "reason", c.Reason, "why", why)
	}
	return why == ""
}

// Matching returns the ids of the handlers whose filters accept the object, in the order of their registration.
func Matching(log logr.Logger, handlers *Handlers, view *invoke.View, input match.Input) (matching []string) {
	for _, id := range handlers.IDs() {
		if h, _ := handlers.Get(id); MatchObject(log, id, h, view, input) {
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
		if !MatchCause(log, id, h, view, c, input) {
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

func catchPanic(log logr.Logger, id string, filter func() (why string)) (why string) {
	defer func() {
		if value := recover(); value != nil {
			log.Error(fmt.Errorf("panic: %v", value), "A filter panicked: its handler is not called", "handler", id, "stack", string(debug.Stack()))
			why = "its filter panicked"
		}
	}()
	return filter()
}
