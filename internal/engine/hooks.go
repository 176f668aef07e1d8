package engine

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// exited is the outcome that hooks receive if an attempt neither returns nor panics.
var exited = progress.Outcome{Err: errors.New("attempt ended its goroutine without returning"), Attempted: true}

func noHooks(progress.Outcome) {}

// beginAttempt calls the hooks of the operator before an attempt. The caller must use the returned context for the attempt and for its sub-handlers, and
// must call end with the outcome. Only the first call of end has an effect, so that the caller can also defer it.
func (e *Engine) beginAttempt(
	ctx context.Context, obj client.Object, id, reason string, attempt progress.Attempt, cycleStarted time.Time,
) (attemptCtx context.Context, end func(progress.Outcome)) {
	if len(e.AttemptHooks) == 0 {
		return ctx, noHooks
	}
	info := invoke.AttemptInfo{
		Kind: e.GVK, Object: client.ObjectKeyFromObject(obj), UID: obj.GetUID(), Handler: id, Reason: reason, Attempt: attempt,
		CycleStarted: cycleStarted.UTC().Truncate(time.Microsecond), // the precision of stored records
	}
	var ends []func(progress.Outcome)
	for _, hook := range e.AttemptHooks {
		changed, ended := hook(ctx, info)
		if changed != nil {
			ctx = changed
		}
		if ended != nil {
			ends = append(ends, ended)
		}
	}
	return ctx, func(outcome progress.Outcome) {
		called := ends
		ends = nil
		for _, ended := range called {
			defer ended(outcome) // the last one first, and all of them even if one panics
		}
	}
}

// runAttempt makes an attempt of a handler without sub-handlers. It calls the hooks of the operator.
func (e *Engine) runAttempt(ctx context.Context, a invoke.HandlerAttempt, cycleStarted time.Time) progress.Outcome {
	ctx, end := e.beginAttempt(ctx, a.View.Object, a.ID, a.View.Reason, a.Record.Attempt(), cycleStarted)
	defer end(exited)
	outcome := a.Run(ctx)
	end(outcome)
	return outcome
}

// cycleStarted returns the time when the cycle began. The records of all handlers that are selected together have the
// same start. Handlers that are selected later in the cycle have a later one. cycleStarted returns zero if there are no hooks.
func (e *Engine) cycleStarted(r *reconciliation) (started time.Time) {
	if len(e.AttemptHooks) == 0 {
		return time.Time{}
	}
	for _, id := range r.selection.Selected {
		if at := r.state.Record(id).Started; !at.IsZero() && (started.IsZero() || at.Before(started)) {
			started = at
		}
	}
	return started
}
