package engine

import (
	"context"
	"errors"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// run calls the due handlers in order. It writes their outcomes earlier than at the end of the reconcile if they have worked for the checkpoint interval,
// which limits the work that is repeated after a crash.
func (e *Engine) run(ctx context.Context, r *reconciliation) error {
	r.logPlan(ctx)
	for len(r.plan.Next) > 0 {
		for _, id := range r.plan.Next {
			if !e.mayCall(ctx, r) {
				return r.writeErr
			}
			handler, _ := e.Handlers.Get(id)
			r.called = append(r.called, id)
			e.callHandler(ctx, r, id, handler)
		}
		if r.writeErr != nil {
			return r.writeErr
		}
		e.planNext(ctx, r)
	}
	return nil
}

// logPlan logs the plan at V(1): which fields have changed, but not their values, which may be confidential.
func (r *reconciliation) logPlan(ctx context.Context) {
	logger := log.FromContext(ctx).V(1)
	if len(r.plan.Next) == 0 || !logger.Enabled() {
		return
	}
	var changed []string
	if r.cause.Reason == cause.Update {
		for _, item := range r.cause.Diff {
			changed = append(changed, item.Path.String())
		}
	}
	logger.Info("Handling", "reason", r.cause.Reason, "handlers", r.plan.Next, "changed", changed)
}

// withDefaults returns the handler with the defaults of the operator.
func (s *Settings) withDefaults(h invoke.Handler) invoke.Handler {
	h.Policy = s.PolicyOf(h.Policy)
	if s.LogEvents {
		h.Do = withLogEvents(h.Do)
	}
	return h
}

// PolicyOf returns the policy of a handler with the backoff of the operator if it has none of its own.
func (s *Settings) PolicyOf(policy progress.Policy) progress.Policy {
	if policy.Backoff == nil && policy.BackoffFunc == nil {
		policy.Backoff = s.Backoff
	}
	return policy
}

// callHandler makes one attempt of a handler, and records its outcome and its changes. The changes of a failed attempt are written, too, and the
// handlers that follow see them.
func (e *Engine) callHandler(ctx context.Context, r *reconciliation, id string, h invoke.Handler) {
	declared, h := h, e.withDefaults(h)
	s := &handlerPatch{id: id, policy: h.Policy, before: r.state.Record(id), open: true}
	if s.before.WaitsForSubs() {
		s.policy.Timeout = nil // the handler is only called to declare its sub-handlers again
	}
	var result any
	var subs []invoke.SubHandler
	var awaitsSubs, callAgain bool
	var recorded *writeRecorder
	_, isTop := e.Handlers.Get(id)
	view := e.causeView(r)
	attemptCtx, endAttempt := e.beginAttempt(ctx, view.Object, id, view.Reason, s.before.Attempt(), e.cycleStarted(r))
	defer endAttempt(exited)
	children := func(outcome progress.Outcome) progress.Outcome {
		if !outcome.Success || outcome.Err != nil || len(subs) == 0 {
			return outcome
		}
		outcome = e.callSubHandlers(attemptCtx, r, id, h, subs)
		if s.refusal != nil {
			return s.rejectedOutcome(now())
		}
		if callAgain = awaitsSubs && outcome.Success; callAgain {
			outcome = progress.Outcome{Waiting: true}
		}
		return outcome
	}
	began, workTime := now(), r.workTime
	r.unsaved = true
	handlerCtx, done := e.cancelOnDelete(attemptCtx, r, h)
	defer done()
	attempted := h
	attempted.Policy = s.policy
	s.outcome = invoke.HandlerAttempt{
		Kind: e.Name, ID: id, Handler: attempted, View: view, Record: s.before, AdjustOutcome: children,
		Prepare: func(req *invoke.Request) {
			req.Flush, req.FinishedSubs = e.newFlush(r, req), r.finishedSubs
			if isTop { // sub-handlers use the client of their parent
				recorded = e.recording(r.before, r.current)
				req.WrapClient = recorded.wrap
			}
			s.base = r.current
		},
		Accept: func(req *invoke.Request, _ error) error {
			doc, err := e.takeChanges(ctx, r, id, req)
			if err != nil {
				return err
			}
			if s.doc = doc; len(doc) > 0 {
				r.handlerPatches = append(r.handlerPatches, s) // before the patches of its sub-handlers
			}
			result, subs, awaitsSubs = req.Result, req.SubHandlers, req.AwaitsSubs
			return nil
		},
	}.Run(handlerCtx)
	endAttempt(s.outcome)
	s.open = false
	e.noteWrite(r, id, recorded.written())
	e.notePanic(r, id, s.outcome)
	e.noteConditionSetByHandler(r, s.base, h)
	r.pendingEvents = append(r.pendingEvents, func() { e.postOutcome(r, s) })
	if s.outcome.Success && s.outcome.Err == nil && result != nil {
		e.takeResult(r, s, result)
	}
	ended := now()
	r.state.RecordOutcome(id, s.outcome, ended)
	if s.outcome.Final {
		r.cause = r.cause.WithSeen()
	}
	if r.workTime == workTime { // otherwise its sub-handlers have added their time
		r.workTime += ended.Sub(began)
	}
	if !callAgain {
		return
	}
	for _, sub := range subs {
		r.finishedSubs = append(r.finishedSubs, sub.ID)
	}
	if e.mayCall(ctx, r) { // otherwise the next reconcile repeats the last call
		e.callHandler(ctx, r, id, declared)
	}
}

// takeResult adds the result of a handler that has succeeded to its patch.
func (e *Engine) takeResult(r *reconciliation, s *handlerPatch, result any) {
	doc := patchAt(e.Results, map[string]any{s.id: result}).Unapplied(r.content)
	s.untyped = true
	if slices.Contains(r.handlerPatches, s) {
		s.doc = patch.Merge(s.doc, doc)
	} else if s.doc = doc; len(doc) > 0 {
		r.handlerPatches = append(r.handlerPatches, s)
	}
}

// takeChanges returns the changes that a handler has made in its copy of the object, and applies them for the handlers that follow.
func (e *Engine) takeChanges(ctx context.Context, r *reconciliation, id string, req *invoke.Request) (patch.MergePatch, error) {
	changed, _, err := e.handlerChanges(ctx, r, id, req.Object)
	if err != nil {
		return nil, err
	}
	doc := r.rebased(changed)
	return doc, e.applyChanges(r, changed)
}

// causeView returns the view of the object and the cause that handlers receive.
func (e *Engine) causeView(r *reconciliation) *invoke.View {
	return &invoke.View{
		Object: r.object, Reason: string(r.cause.Reason), Old: func() client.Object { return e.oldObject(r) }, Handled: func() client.Object { return e.handledObject(r) },
		OldUnknown: !r.cause.IsOldKnown(), Diff: r.cause.Diff, Before: r.cause.Old, After: r.cause.New,
		ConditionOptions: append(e.conditionOptions(), conditions.Since(r.before)), Latest: e.latest(r.before), Notify: e.notifierFor(r.before),
	}
}

// checkpoint writes the outcomes so far if handlers have worked for the checkpoint interval. If the object is deleted, run calls no other handler in this
// reconcile.
func (e *Engine) checkpoint(ctx context.Context, r *reconciliation) error {
	if r.writeErr != nil {
		return r.writeErr
	}
	if !r.unsaved || r.workTime < e.Checkpoint || r.aborted || r.gone {
		return nil
	}
	written, err := e.write(ctx, r)
	if err != nil {
		return err
	}
	if written == nil || written.GetDeletionTimestamp() != nil && !r.cause.Facts.Deleting {
		log.FromContext(ctx).V(1).Info("The object was deleted during the reconcile; skipping the remaining handlers")
		r.aborted = true
	}
	return nil
}

// cancelOnDelete returns a context that ends when the object is being deleted, for handlers that want it. After the cancellation, run calls no other handler in
// this reconcile.
func (e *Engine) cancelOnDelete(ctx context.Context, r *reconciliation, h invoke.Handler) (context.Context, func()) {
	if !h.CancelOnDelete || r.cause.Facts.Deleting {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	end := e.states.OnDeletion(r.before.GetUID(), func() { cancel(daemons.ErrDeleted) })
	return ctx, func() {
		end()
		r.aborted = r.aborted || errors.Is(context.Cause(ctx), daemons.ErrDeleted)
		cancel(nil)
	}
}
