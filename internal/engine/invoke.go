package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/loopguard"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/tracking"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// callCauseHandlers calls the planned cause handlers in order. Once handlers have worked for the checkpoint interval, it writes their
// outcomes before the next call, so that less work is repeated after a crash.
func (e *Engine) callCauseHandlers(ctx context.Context, r *reconciliation) error {
	r.logPlan(ctx)
	for len(r.calls.plan.Next) > 0 {
		for _, id := range r.calls.plan.Next {
			handler, _ := e.Handlers.Get(id)
			r.calls.top = id
			if !e.callCauseHandler(ctx, r, id, handler, time.Time{}) {
				return r.calls.err
			}
		}
		if r.calls.err != nil {
			return r.calls.err
		}
		e.planNext(ctx, r)
	}
	return nil
}

// mayCall writes a checkpoint if it is due, and reports whether the reconcile may call another handler.
func (e *Engine) mayCall(ctx context.Context, r *reconciliation) bool {
	if err := e.checkpoint(ctx, r); err != nil {
		r.calls.err = err
	}
	return !r.calls.aborted && r.calls.err == nil && !hasEnded(ctx) && !e.stopIfPaused(r)
}

// stopIfPaused stops calling handlers if the operator or the object is paused by now, or if the object is out of scope. The reconcile still
// writes the outcomes.
func (e *Engine) stopIfPaused(r *reconciliation) bool {
	newest := e.states.Newest(r.draft.Base().GetUID())
	if e.Pause != nil && e.paused(r.draft.Base().GetNamespace()) || newest != nil && IsObjectPaused(newest) || (e.Scope != nil || e.Shard != nil) && !e.inScope(client.ObjectKeyFromObject(r.draft.Base())) {
		r.calls.aborted = true
		e.enqueue(r.draft.Base().GetUID()) // the key waits until the pause is over, or is released
	}
	return r.calls.aborted
}

// logPlan logs the plan at V(1), with the paths of the changed fields but not their values, which may be confidential.
func (r *reconciliation) logPlan(ctx context.Context) {
	logger := log.FromContext(ctx).V(1)
	if len(r.calls.plan.Next) == 0 || !logger.Enabled() {
		return
	}
	var changed []string
	if r.session.Cause.Reason == cause.Update {
		for _, item := range r.session.Cause.Diff {
			changed = append(changed, item.Path.String())
		}
	}
	logger.Info("Handling", "reason", r.session.Cause.Reason, "handlers", r.calls.plan.Next, "changed", changed)
}

// callCauseHandler calls a cause handler, and calls it again if it was waiting for its sub-handlers and they have finished. It returns
// false if the reconcile may not call handlers any more; the next one repeats the call. No sub-handler is called after the deadline, unless
// it is zero.
func (e *Engine) callCauseHandler(ctx context.Context, r *reconciliation, id string, h *invoke.Handler, deadline time.Time) bool {
	record := r.session.Records.Record(id)
	isLate := h.Policy.Timeout != nil && record.Retries == 0 && !record.WaitsForSubs() && now().Sub(record.Started) >= *h.Policy.Timeout
	for e.mayCall(ctx, r) {
		if callAgain := e.attemptCauseHandler(ctx, r, r.attemptView(), id, h, deadline); !callAgain {
			return true
		}
		if isLate {
			policy := h.Policy
			policy.Timeout = nil // the first attempt is made although it is late, and the handler has not returned from it yet
			h = withPolicy(h, policy)
		}
	}
	return false
}

// attemptCauseHandler makes one attempt of a cause handler, and records its outcome and its changes. Even a failed attempt's changes are
// written, and the handlers that follow see them. The sub-handlers that the handler has declared are called as well. attemptCauseHandler
// returns true if the handler must be called again right away.
func (e *Engine) attemptCauseHandler(ctx context.Context, r *reconciliation, view *invoke.View, id string, h *invoke.Handler, deadline time.Time) bool {
	before := r.session.Records.Record(id)
	p := &commit.HandlerPatch{ID: id, Policy: h.Policy, Before: before, Open: true}
	_, isTop := e.Handlers.Get(id)
	if isTop && !slices.Contains(r.calls.called, id) {
		r.calls.called = append(r.calls.called, id)
	}
	var req *invoke.Request // of the attempt, if its changes were accepted
	var callAgain bool
	began, workTime := now(), r.calls.workTime
	r.calls.unsaved = true
	var recorder *loopguard.Recorder
	p.Outcome = invoke.HandlerAttempt{
		Kind: e.Name, ID: id, Handler: h, View: view, Record: before, Restrict: e.cancelOnDelete(r, h),
		Hooks: e.traits.hooks, CycleStarted: e.cycleStarted(r),
		Prepare: func(req *invoke.Request) {
			req.Flush, req.SubFinished = r.flush(req), e.subFinished(ctx, r, h)
			if h.RetriesOnRelatedChange {
				req.Track = e.tracker.Begin(tracking.Reader{Object: client.ObjectKeyFromObject(r.draft.Base()), Handler: r.calls.top}).Track
			}
			if isTop { // sub-handlers use their parent's client
				req.WrapClient = e.recording(r, &recorder)
			}
			p.Base = r.draft.Current().Content
		},
		Accept: func(accepted *invoke.Request, _ error) error { // even after a failed attempt
			doc, err := e.committer.TakeChanges(ctx, r.draft, id, accepted.Object)
			if err != nil {
				return err
			}
			p.Patch, req = doc, accepted
			r.draft.Add(p) // before the patches of its sub-handlers
			return nil
		},
		AdjustOutcome: func(attemptCtx context.Context, outcome progress.Outcome) progress.Outcome {
			var subs []invoke.SubHandler
			if outcome.Success && outcome.Err == nil && req != nil {
				subs = req.SubHandlers
			}
			if len(subs) > 0 {
				outcome = e.callSubHandlers(attemptCtx, r, parent{id, h, before, deadlineOf(h, before, began, deadline)}, subs)
				if p.Rejection != nil {
					outcome = p.RejectedOutcome(now())
				}
			}
			if callAgain = len(subs) > 0 && req.AwaitsSubs && outcome.Success; callAgain {
				return progress.Outcome{Waiting: true}
			}
			return e.abandonSubHandlers(attemptCtx, r, id, outcome, subs)
		},
	}.Run(ctx)
	p.Open = false
	r.noteAttempt(attempt{HandlerPatch: p, conditionType: h.ConditionType}, recorder)
	if p.Outcome.Success && p.Outcome.Err == nil && req != nil && req.Result != nil {
		p.Untyped = true
		r.draft.AddTo(p, patch.At(e.Results, map[string]any{id: req.Result}).Unapplied(r.draft.Content()))
	}
	ended := now()
	r.session.Records.RecordOutcome(id, p.Outcome, ended)
	if p.Outcome.Final && r.session.Cause.Facts.Initial && h.Resumes() && !slices.Contains(r.details.Resumed, id) {
		r.details.Resumed = append(r.details.Resumed, id)
	}
	if p.Outcome.Final && isTop && h.RetriesOnRelatedChange {
		e.tracker.Forget(tracking.Reader{Object: client.ObjectKeyFromObject(r.draft.Base()), Handler: id})
	}
	if p.Outcome.Final {
		r.session.Cause = r.session.Cause.WithSeen()
	}
	if r.calls.workTime == workTime { // otherwise its sub-handlers have added their time
		r.calls.workTime += ended.Sub(began)
	}
	return callAgain
}

// flush returns the function that writes a handler's status changes before it has returned, or nil for a deleted object.
func (r *reconciliation) flush(req *invoke.Request) func(context.Context) error {
	if r.session.Gone {
		return nil
	}
	return func(ctx context.Context) error {
		defer r.noteResult()
		return r.session.Flush(ctx, req.ID, req.Object)
	}
}

// recording returns a function that wraps an attempt's client and sets the recorder.
func (e *Engine) recording(r *reconciliation, recorder **loopguard.Recorder) func(client.Client) client.Client {
	return func(inner client.Client) client.Client {
		*recorder = &loopguard.Recorder{Client: inner, GVK: e.GVK, HasStatus: e.HasStatus, Essence: e.detector.Essence, Received: r.draft.Current()}
		return *recorder
	}
}

// checkpoint writes the outcomes so far if handlers have worked for the checkpoint interval. If the object was deleted meanwhile, no more
// handlers are called in this reconcile.
func (e *Engine) checkpoint(ctx context.Context, r *reconciliation) error {
	if r.calls.err != nil {
		return r.calls.err
	}
	if !r.calls.unsaved || r.calls.workTime < e.Checkpoint || r.calls.aborted || r.session.Gone {
		return nil
	}
	written, err := r.write(ctx)
	if err != nil {
		return err
	}
	if written == nil || written.GetDeletionTimestamp() != nil && !r.session.Cause.Facts.Deleting {
		log.FromContext(ctx).V(1).Info("The object was deleted during the reconcile; skipping the remaining handlers")
		r.calls.aborted = true
	}
	return nil
}

// cancelOnDelete returns a function that cancels an attempt's context when the object is being deleted. It returns nil for handlers without
// CancelOnDelete, and if the object is already being deleted. After the cancellation, no more handlers are called in this reconcile.
func (e *Engine) cancelOnDelete(r *reconciliation, h *invoke.Handler) func(context.Context) (context.Context, func()) {
	if !h.CancelOnDelete || r.session.Cause.Facts.Deleting {
		return nil
	}
	return func(ctx context.Context) (context.Context, func()) {
		ctx, cancel := context.WithCancelCause(ctx)
		end := e.states.OnDeletion(r.draft.Base().GetUID(), func() { cancel(daemons.ErrDeleted) })
		if e.states.Newest(r.draft.Base().GetUID()) == nil { // the object has left the cache since the start of the reconcile
			e.endWork(r.draft.Base(), false)
		}
		return ctx, func() {
			end()
			r.calls.aborted = r.calls.aborted || errors.Is(context.Cause(ctx), daemons.ErrDeleted)
			cancel(nil)
		}
	}
}

// cycleStarted returns the time when the cycle began, or the zero time if there are no hooks. It takes the earliest start in the records,
// because handlers that are selected later in the cycle start later.
func (e *Engine) cycleStarted(r *reconciliation) (started time.Time) {
	if e.traits.hooks == nil {
		return time.Time{}
	}
	for _, id := range r.matching.selection.Selected {
		if at := r.session.Records.Record(id).Started; !at.IsZero() && (started.IsZero() || at.Before(started)) {
			started = at
		}
	}
	return started
}

// newView returns the view of an object without a cause.
func (e *Engine) newView(obj client.Object, reason string) *invoke.View {
	return &invoke.View{Object: obj, Reason: reason, ConditionOptions: e.traits.conditionPlaces, Latest: func() client.Object { return e.latest(obj) }, Notify: e.events.NotifierFor(obj)}
}

// noteAttempt records an attempt for the reports. recorder is the client that the handler has used, or nil.
func (r *reconciliation) noteAttempt(a attempt, recorder *loopguard.Recorder) {
	if recorder != nil {
		r.engine.noteWrite(r, a.ID, recorder.Written())
	}
	a.after = r.draft.Current().Content
	r.report.attempts = append(r.report.attempts, a)
}
