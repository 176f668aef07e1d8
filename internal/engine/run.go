package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// run calls the planned handlers in order. What they have achieved is written at the end of the
// pass; earlier, in between, when they have worked for a while since the last write: a crash never
// repeats more than that.
func (e *Engine) run(ctx context.Context, r *reconciliation) error {
	r.logPlan(ctx)
	for len(r.plan.Next) > 0 {
		for _, id := range r.plan.Next {
			if err := e.checkpoint(ctx, r); err != nil {
				return err
			}
			if r.stopped || r.writeErr != nil || hasEnded(ctx) || e.stopIfPaused(r) {
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

// tell logs what handlers are called for, for those who want to know that much: where the object has changed, but not what is there, which may be
// nobody's business.
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

// breaksOff ends the pass, but for its writes, if the operator was paused meanwhile.
func (e *Engine) stopIfPaused(r *reconciliation) bool {
	if e.paused(r.before.GetNamespace()) {
		r.stopped = true
		e.enqueue(r.before.GetUID()) // to be noted, and handled after the pause
	}
	return r.stopped
}

func hasEnded(ctx context.Context) bool { return ctx.Err() != nil }

func now() time.Time { return time.Now() }

// call makes one attempt at one handler, and takes in what it wants to be written.
func (e *Engine) callHandler(ctx context.Context, r *reconciliation, id string, h invoke.Handler) {
	s := &handlerPatch{id: id, policy: h.Policy, before: r.state.Record(id), open: true}
	if s.before.WaitsForSubs() {
		s.policy.Timeout = nil // it is only to declare its sub-handlers once more (B-24)
	}
	var result any
	var subs []invoke.SubHandler
	var recorded *writeRecorder
	_, isTop := e.Handlers.Get(id)
	children := func(outcome progress.Outcome) progress.Outcome {
		if !outcome.Success || outcome.Err != nil || len(subs) == 0 {
			return outcome
		}
		outcome = e.callSubHandlers(ctx, r, id, h, subs)
		if s.refusal != nil {
			return s.rejectedOutcome(now())
		}
		return outcome
	}
	began, workTime := now(), r.workTime
	r.unsaved = true
	handlerCtx, done := e.cancelOnDelete(ctx, r, h)
	defer done()
	attempted := h
	attempted.Policy = s.policy
	s.outcome = invoke.HandlerAttempt{
		Kind: e.Name, ID: id, Handler: attempted, View: e.causeView(r), Record: s.before, AdjustOutcome: children,
		Prepare: func(req *invoke.Request) {
			req.Flush = e.newFlush(r, req)
			if isTop { // sub-handlers use the client of their parent
				recorded = e.recording(r)
				req.WrapClient = recorded.of
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
			result, subs = req.Result, req.SubHandlers
			return nil
		},
	}.Run(handlerCtx)
	s.open = false
	if recorded != nil {
		r.noteClientWrites(id, recorded.written())
	}
	e.noteConditions(r, s.base, h)
	r.pendingEvents = append(r.pendingEvents, func() { e.postOutcome(r, s) })
	if s.outcome.Success && s.outcome.Err == nil && result != nil {
		e.takeResult(r, s, result)
	}
	ended := now()
	r.state.RecordOutcome(id, s.outcome, ended)
	if s.outcome.Final {
		r.cause = r.cause.WithSeen()
	}
	if r.workTime == workTime { // its sub-handlers have not counted already
		r.workTime += ended.Sub(began)
	}
}

// deliver takes in the result of a handler that has succeeded.
func (e *Engine) takeResult(r *reconciliation, s *handlerPatch, result any) {
	doc := nested(e.Results, map[string]any{s.id: result}).Unapplied(r.content)
	s.untyped = true
	if slices.Contains(r.handlerPatches, s) {
		s.doc = patch.Merge(s.doc, doc)
	} else if s.doc = doc; len(doc) > 0 {
		r.handlerPatches = append(r.handlerPatches, s)
	}
}

// first prefers the handler's own error.
func firstError(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// takeChanges returns the changes that a handler has made in its copy of the object, and shows them to the handlers that follow.
func (e *Engine) takeChanges(ctx context.Context, r *reconciliation, id string, req *invoke.Request) (patch.MergePatch, error) {
	changed, err := e.handlerChanges(ctx, r, id, req.Object)
	if err != nil {
		return nil, err
	}
	return r.rebased(changed), e.applyChanges(r, changed)
}

// causeView returns what handlers receive of the object and of the cause.
func (e *Engine) causeView(r *reconciliation) *invoke.View {
	return &invoke.View{
		Object: r.object, Reason: string(r.cause.Reason), Old: func() client.Object { return e.oldObject(r) }, Handled: func() client.Object { return e.handledObject(r) },
		OldUnknown: !r.cause.IsOldKnown(), Diff: r.cause.Diff, Before: r.cause.Old, After: r.cause.New,
		ConditionOptions: append(e.conditionOptions(), conditions.Since(r.before)), Latest: e.latest(r.before), Notify: e.notifierFor(r.before),
	}
}

// pinned is what is being handled, if the object was edited since the cycle began; else nil.
func (e *Engine) handledObject(r *reconciliation) client.Object {
	if r.cause.Reason != cause.Create && r.cause.Reason != cause.Update || r.cause.PinnedDigest != "" || !r.cause.IsPinned() {
		return nil
	}
	return e.objectOf(r, r.cause.New)
}

// old is the object as it was last handled, a copy for one handler; nil if it never was, or is not known.
func (e *Engine) oldObject(r *reconciliation) client.Object {
	if r.old == nil && r.cause.Old != nil {
		r.old = e.objectOf(r, r.cause.Old)
	}
	if r.old == nil {
		return nil
	}
	return r.old.DeepCopyObject().(client.Object)
}

// objectOf makes an object of one of its essences; nil if that does not fit the Go type (any more), as
// detect has told.
func (e *Engine) objectOf(r *reconciliation, of map[string]any) client.Object {
	obj, err := e.decodeEssence(of, r.cause.StoredTextOf(of))
	if err != nil {
		obj = nil
	} else {
		obj.SetNamespace(r.before.GetNamespace())
		obj.SetName(r.before.GetName())
	}
	return obj
}

// checkpoint writes what was achieved so far, if handlers have worked for long enough, and goes on with
// the object as it is then. If the cause is a different one by now, the rest of the pass is off.
func (e *Engine) checkpoint(ctx context.Context, r *reconciliation) error {
	if r.writeErr != nil {
		return r.writeErr
	}
	if !r.unsaved || r.workTime < e.Checkpoint || r.stopped || r.gone {
		return nil
	}
	written, err := e.write(ctx, r)
	if err != nil {
		return err
	}
	if written == nil || written.GetDeletionTimestamp() != nil && !r.cause.Facts.Deleting {
		log.FromContext(ctx).V(1).Info("The object was deleted meanwhile; the rest of the pass is off")
		r.stopped = true
	}
	return nil
}

// untilDeleted ends the context of a handler that wants it when the object is being deleted, whoever has to tell
// that (SE-53). The rest of the pass is off then.
func (e *Engine) cancelOnDelete(ctx context.Context, r *reconciliation, h invoke.Handler) (context.Context, func()) {
	if !h.CancelOnDelete || r.cause.Facts.Deleting {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	end := e.states.OnDeletion(r.before.GetUID(), func() { cancel(daemons.ErrDeleted) })
	return ctx, func() {
		end()
		r.stopped = r.stopped || errors.Is(context.Cause(ctx), daemons.ErrDeleted)
		cancel(nil)
	}
}
