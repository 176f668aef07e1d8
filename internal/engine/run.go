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
func (e *Engine) run(ctx context.Context, c *cycle) error {
	c.tell(ctx)
	for len(c.plan.Next) > 0 {
		for _, id := range c.plan.Next {
			if err := e.checkpoint(ctx, c); err != nil {
				return err
			}
			if c.stopped || c.fault != nil || isDone(ctx) || e.breaksOff(c) {
				return c.fault
			}
			handler, _ := e.Handlers.Get(id)
			c.called = append(c.called, id)
			e.call(ctx, c, id, handler)
		}
		if c.fault != nil {
			return c.fault
		}
		e.pick(ctx, c)
	}
	return nil
}

// tell logs what handlers are called for, for those who want to know that much: where the object has changed, but not what is there, which may be
// nobody's business.
func (c *cycle) tell(ctx context.Context) {
	logger := log.FromContext(ctx).V(1)
	if len(c.plan.Next) == 0 || !logger.Enabled() {
		return
	}
	var changed []string
	if c.cause.Reason == cause.Update {
		for _, item := range c.cause.Diff {
			changed = append(changed, item.Path.String())
		}
	}
	logger.Info("Handling", "reason", c.cause.Reason, "handlers", c.plan.Next, "changed", changed)
}

// breaksOff ends the pass, but for its writes, if the operator was paused meanwhile.
func (e *Engine) breaksOff(c *cycle) bool {
	if e.paused(c.before.GetNamespace()) {
		c.stopped = true
		e.wake(c.before.GetUID()) // to be noted, and handled after the pause
	}
	return c.stopped
}

func isDone(ctx context.Context) bool { return ctx.Err() != nil }

func now() time.Time { return time.Now() }

// call makes one attempt at one handler, and takes in what it wants to be written.
func (e *Engine) call(ctx context.Context, c *cycle, id string, h invoke.Handler) {
	s := &share{id: id, policy: h.Policy, before: c.state.Record(id), open: true}
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
		outcome = e.runSubs(ctx, c, id, h, subs)
		if s.refusal != nil {
			return s.refused(now())
		}
		return outcome
	}
	began, worked := now(), c.worked
	c.unsaved = true
	handlerCtx, done := e.untilDeleted(ctx, c, h)
	defer done()
	attempted := h
	attempted.Policy = s.policy
	s.outcome = invoke.HandlerAttempt{
		Kind: e.Name, ID: id, Handler: attempted, View: e.causeView(c), Record: s.before, AdjustOutcome: children,
		Prepare: func(req *invoke.Request) {
			req.Flush = e.flusher(c, req)
			if isTop { // sub-handlers use the client of their parent
				recorded = e.recording(c)
				req.WrapClient = recorded.of
			}
			s.base = c.current
		},
		Accept: func(req *invoke.Request, _ error) error {
			doc, err := e.takeChanges(ctx, c, id, req)
			if err != nil {
				return err
			}
			if s.doc = doc; len(doc) > 0 {
				c.shares = append(c.shares, s) // before the patches of its sub-handlers
			}
			result, subs = req.Result, req.SubHandlers
			return nil
		},
	}.Run(handlerCtx)
	s.open = false
	if recorded != nil {
		c.noteClientWrites(id, recorded.written())
	}
	e.listen(c, s.base, h)
	c.news = append(c.news, func() { e.announce(c, s) })
	if s.outcome.Success && s.outcome.Err == nil && result != nil {
		e.deliver(c, s, result)
	}
	ended := now()
	c.state.RecordOutcome(id, s.outcome, ended)
	if s.outcome.Final {
		c.cause = c.cause.WithSeen()
	}
	if c.worked == worked { // its sub-handlers have not counted already
		c.worked += ended.Sub(began)
	}
}

// deliver takes in the result of a handler that has succeeded.
func (e *Engine) deliver(c *cycle, s *share, result any) {
	doc := nested(e.Results, map[string]any{s.id: result}).Unapplied(c.content)
	s.raw = true
	if slices.Contains(c.shares, s) {
		s.doc = patch.Merge(s.doc, doc)
	} else if s.doc = doc; len(doc) > 0 {
		c.shares = append(c.shares, s)
	}
}

// first prefers the handler's own error.
func first(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// takeChanges returns the changes that a handler has made in its copy of the object, and shows them to the handlers that follow.
func (e *Engine) takeChanges(ctx context.Context, c *cycle, id string, req *invoke.Request) (patch.MergePatch, error) {
	changed, err := e.changes(ctx, c, id, req.Object)
	if err != nil {
		return nil, err
	}
	return c.fitted(changed), e.show(c, changed)
}

// causeView returns what handlers receive of the object and of the cause.
func (e *Engine) causeView(c *cycle) *invoke.View {
	return &invoke.View{
		Object: c.object, Reason: string(c.cause.Reason), Old: func() client.Object { return e.old(c) }, Handled: func() client.Object { return e.pinned(c) },
		OldUnknown: !c.cause.IsOldKnown(), Diff: c.cause.Diff, Before: c.cause.Old, After: c.cause.New,
		ConditionOptions: append(e.conditionOptions(), conditions.Since(c.before)), Latest: e.latest(c.before), Notify: e.notifierFor(c.before),
	}
}

// pinned is what is being handled, if the object was edited since the cycle began; else nil.
func (e *Engine) pinned(c *cycle) client.Object {
	if c.cause.Reason != cause.Create && c.cause.Reason != cause.Update || c.cause.PinnedDigest != "" || !c.cause.IsPinned() {
		return nil
	}
	return e.objectOf(c, c.cause.New)
}

// old is the object as it was last handled, a copy for one handler; nil if it never was, or is not known.
func (e *Engine) old(c *cycle) client.Object {
	if c.old == nil && c.cause.Old != nil {
		c.old = e.objectOf(c, c.cause.Old)
	}
	if c.old == nil {
		return nil
	}
	return c.old.DeepCopyObject().(client.Object)
}

// objectOf makes an object of one of its essences; nil if that does not fit the Go type (any more), as
// detect has told.
func (e *Engine) objectOf(c *cycle, of map[string]any) client.Object {
	obj, err := e.decodeEssence(of, c.cause.StoredTextOf(of))
	if err != nil {
		obj = nil
	} else {
		obj.SetNamespace(c.before.GetNamespace())
		obj.SetName(c.before.GetName())
	}
	return obj
}

// checkpoint writes what was achieved so far, if handlers have worked for long enough, and goes on with
// the object as it is then. If the cause is a different one by now, the rest of the pass is off.
func (e *Engine) checkpoint(ctx context.Context, c *cycle) error {
	if c.fault != nil {
		return c.fault
	}
	if !c.unsaved || c.worked < e.Checkpoint || c.stopped || c.gone {
		return nil
	}
	written, err := e.write(ctx, c)
	if err != nil {
		return err
	}
	if written == nil || written.GetDeletionTimestamp() != nil && !c.cause.Facts.Deleting {
		log.FromContext(ctx).V(1).Info("The object was deleted meanwhile; the rest of the pass is off")
		c.stopped = true
	}
	return nil
}

// untilDeleted ends the context of a handler that wants it when the object is being deleted, whoever has to tell
// that (SE-53). The rest of the pass is off then.
func (e *Engine) untilDeleted(ctx context.Context, c *cycle, h invoke.Handler) (context.Context, func()) {
	if !h.CancelOnDelete || c.cause.Facts.Deleting {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	end := e.states.OnDeletion(c.before.GetUID(), func() { cancel(daemons.ErrDeleted) })
	return ctx, func() {
		end()
		c.stopped = c.stopped || errors.Is(context.Cause(ctx), daemons.ErrDeleted)
		cancel(nil)
	}
}
