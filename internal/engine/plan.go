package engine

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// plan begins or continues the cause, and picks the handlers to call in this pass.
func (e *Engine) plan(ctx context.Context, c *cycle) {
	if !c.cause.Reason.HasHandlers() {
		return
	}
	c.state.Relabel(string(c.cause.Reason), c.joining)
	for purpose, sum := range c.state.Begin(string(c.cause.Reason), c.selected, now()) {
		log.FromContext(ctx).Info("A cause was superseded before it was handled", "cause", purpose, "by", c.cause.Reason,
			"succeeded", sum.Succeeded, "failed", sum.Failed, "left", sum.Left)
	}
	if c.cause.Reason == cause.Delete {
		c.memory.OptionalDeleteCalled = true // the optional ones are called with the others
	}
	if !c.cause.Reversed { // that is written before anybody is called
		e.pick(ctx, c)
	}
}

// pick asks the lifecycle which of the handlers that are due are called next. When it has let all of them
// pass, those that have waited for them follow in the same pass, if it would have let as many pass at once:
// one that calls one handler a pass has each outcome written before the next call (LIFE-03).
func (e *Engine) pick(ctx context.Context, c *cycle) {
	c.planned = nil
	if c.limited {
		return
	}
	var due []string
	for _, id := range e.due(ctx, c) {
		if !slices.Contains(c.called, id) {
			due = append(due, id)
		}
	}
	c.planned = chosen(e.Lifecycle, c.state, due)
	if len(c.called) > 0 {
		room := len(chosen(e.Lifecycle, c.state, slices.Concat(c.called, due))) - len(c.called)
		c.planned = c.planned[:max(0, min(room, len(c.planned)))]
	}
	c.limited = len(c.planned) < len(due)
	c.refused = len(c.planned) == 0 && len(due) > 0
}

// due are the handlers whose time has come, and for which those that they come after have succeeded. If
// one of those has failed, the handler has failed, too, and is not called (see After of package kopf).
func (e *Engine) due(ctx context.Context, c *cycle) (due []string) {
	var skipped bool
	due, c.blocked = nil, nil
	for _, id := range c.selected {
		handler, _ := e.Handlers.Get(id)
		if c.state.Record(id).Finished() {
			continue
		}
		switch first, failed := e.obstacle(c, handler); {
		case failed:
			err := fmt.Errorf("it comes after %q, which has failed", first)
			log.FromContext(ctx).Info("Handler skipped permanently", "handler", id, "reason", c.cause.Reason, "error", err.Error())
			c.state.RecordOutcome(id, progress.Outcome{Err: progress.Permanent(err), Final: true}, now())
			skipped = true
		case first != "":
			c.blocked = append(c.blocked, id)
		case c.state.Record(id).Due(now()):
			due = append(due, id)
		}
	}
	if skipped {
		return e.due(ctx, c) // there may be some that come after the skipped ones
	}
	return due
}

// obstacle is the first handler of the cause that has to succeed before another one is called.
func (e *Engine) obstacle(c *cycle, h invoke.Handler) (id string, failed bool) {
	for _, id := range h.After {
		if record := c.state.Record(id); slices.Contains(c.selected, id) && !record.Success {
			return id, record.Failure
		}
	}
	return "", false
}

// chosen asks the lifecycle, which may be anybody's: only what is due is called, and that once.
func chosen(lifecycle progress.Lifecycle, state *progress.State, due []string) []string {
	var out []string
	for _, id := range lifecycle(slices.Clone(due), state.Record) {
		if slices.Contains(due, id) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
