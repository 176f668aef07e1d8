package engine

import (
	"context"
	"fmt"
	"runtime/debug"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
)

// filter finds the handlers whose business the object is. If it is nobody's, nothing is handled and
// nothing told: the object is left as it is, but for what we have left on it ourselves (PIPE-12, FIN-04).
func (e *Engine) filter(ctx context.Context, c *cycle) {
	refusals := log.FromContext(ctx).V(4)
	for _, id := range e.Handlers.IDs() {
		handler, _ := e.Handlers.Get(id)
		ok, why := e.passes(ctx, c, id, handler, c.subject())
		if ok {
			c.concerned = append(c.concerned, id)
		} else if refusals.Enabled() {
			refusals.Info("Handler not concerned", "handler", id, "why", why)
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

// passes asks all tests of a handler that are about the object alone.
func (e *Engine) passes(ctx context.Context, c *cycle, id string, h Handler, o match.Input) (ok bool, why string) {
	defer func() {
		if value := recover(); value != nil {
			ok, why = false, e.filterPanicked(ctx, id, value)
		}
	}()
	if ok, why = h.MatchObject(o); !ok {
		return false, why
	}
	for _, when := range h.When {
		if !when(e.shown(c)) {
			return false, "its When does not match"
		}
	}
	return true, ""
}

// matches asks whether what has happened is a reason to call the handler.
func (e *Engine) matches(ctx context.Context, c *cycle, id string, h Handler, s match.Cause) (ok bool, why string) {
	defer func() {
		if value := recover(); value != nil {
			ok, why = false, e.filterPanicked(ctx, id, value)
		}
	}()
	if ok, why = h.MatchCause(s, c.subject()); !ok {
		return false, why
	}
	if h.Field == nil && isOnlyOfConditions(s, c) {
		return false, "only conditions have changed, and it is not for them"
	}
	if h.Changed != nil && !h.Changed(e.shown(c)) {
		return false, "what it looks at has not changed"
	}
	return true, ""
}

// filterPanicked makes a mismatch of a filter that panics, which is told: it is a defect (B-26).
func (e *Engine) filterPanicked(ctx context.Context, id string, value any) string {
	log.FromContext(ctx).Error(fmt.Errorf("panic: %v", value), "A filter panicked: its handler is not called",
		"handler", id, "stack", string(debug.Stack()))
	return "its filter panicked"
}

// shown is what tests of users are shown: a copy, made when the first of them is asked.
func (e *Engine) shown(c *cycle) *Call {
	if c.view == nil {
		c.view = &Call{
			Object: c.before.DeepCopyObject().(client.Object), Old: e.old(c), OldKnown: c.cause.IsOldKnown(), Handled: e.pinned(c),
			Diff: withoutConditions(c.cause.Diff), Reason: string(c.cause.Reason), ConditionOptions: e.conditionOptions(),
		}
	}
	return c.view
}
