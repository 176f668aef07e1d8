package engine

import (
	"context"
	"fmt"
	"runtime/debug"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
)

// filter finds the cause handlers whose filters accept the object. If there are none, nothing is handled: the engine only removes what it has left on
// the object.
func (e *Engine) filter(ctx context.Context, c *cycle) {
	c.view = e.causeView(c)
	for _, id := range e.Handlers.IDs() {
		handler, _ := e.Handlers.Get(id)
		if e.matchesObject(ctx, id, handler, c.view, c.subject()) {
			c.concerned = append(c.concerned, id)
		}
	}
	if len(c.concerned) > 0 {
		return
	}
	if c.cause.Reason.HasHandlers() && c.cause.Reason != cause.Delete {
		c.cause.Reason = cause.Noop
	}
	c.cause.StalePin = c.cause.StalePin || e.Pin.Fetch(c.before) != nil
}

// matchesObject reports whether the filters of a handler accept an object. It logs the reason at V(4) if they do not.
func (e *Engine) matchesObject(ctx context.Context, id string, h invoke.Handler, view *invoke.View, input match.Input) bool {
	why := e.catchPanic(ctx, id, func() string {
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
		log.FromContext(ctx).V(4).Info("Handler not concerned", "handler", id, "why", why)
	}
	return why == ""
}

// matchesCause reports whether a handler whose filters accept the object is called for the cause. It logs the reason at V(4) if it is not.
func (e *Engine) matchesCause(ctx context.Context, c *cycle, id string, h invoke.Handler, s match.Cause) bool {
	why := e.catchPanic(ctx, id, func() string {
		if ok, why := h.MatchCause(s, c.subject()); !ok {
			return why
		}
		if h.Field == nil && isOnlyOfConditions(s, c) {
			return "only conditions have changed, and it is not for them"
		}
		if h.Changed != nil && !h.Changed(c.view.PredicateRequest()) {
			return "what it looks at has not changed"
		}
		return ""
	})
	if why != "" {
		log.FromContext(ctx).V(4).Info("Handler not selected", "handler", id, "reason", c.cause.Reason, "why", why)
	}
	return why == ""
}

// catchPanic runs the filters of a handler. A panic is logged, and the handler does not match.
func (e *Engine) catchPanic(ctx context.Context, id string, filter func() (why string)) (why string) {
	defer func() {
		if value := recover(); value != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", value), "A filter panicked: its handler is not called",
				"handler", id, "stack", string(debug.Stack()))
			why = "its filter panicked"
		}
	}()
	return filter()
}
