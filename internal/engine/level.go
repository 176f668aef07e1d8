package engine

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// reasonReconcile is the reason of level-triggered handlers.
const reasonReconcile = "reconcile"

// A levelState is what is known of one level-triggered handler of one object. It is not kept on the
// object: after a restart, all of them are called.
type levelState struct {
	record  progress.Record // of the attempts since the last success
	due     time.Time       // when it is to be called, whatever happens; zero: not by itself
	stirred bool            // something has happened since it was called
	failed  bool            // for good, as was told
}

// level calls the level-triggered handlers if something has happened to the object or around it, or if
// their time has come. What they change is written at the end of the pass.
func (e *Engine) level(ctx context.Context, c *cycle) {
	if len(e.ReconcileHandlers.IDs()) == 0 || c.stopped || c.fault != nil || isDone(ctx) {
		return
	}
	if e.states.TakeForeignChange(client.ObjectKeyFromObject(c.before), c.memory, c.before.GetResourceVersion()) {
		for _, st := range c.memory.Worker.ReconcileHandlers {
			st.stirred = true
		}
	}
	for _, id := range e.ReconcileHandlers.IDs() {
		handler, _ := e.ReconcileHandlers.Get(id)
		if !plan.MatchObject(log.FromContext(ctx), id, handler, c.view, match.Input{Object: c.content}) {
			delete(c.memory.Worker.ReconcileHandlers, id)
			continue
		}
		c.leveled = true
		if e.breaksOff(c) {
			return
		}
		if st := c.levelState(id); st.isDue(now()) {
			e.callLevel(ctx, c, id, handler, st)
		}
	}
}

// levelState is what is known of a handler; at first sight, it is to be called.
func (c *cycle) levelState(id string) *levelState {
	if st, ok := c.memory.Worker.ReconcileHandlers[id]; ok {
		return st
	}
	if c.memory.Worker.ReconcileHandlers == nil {
		c.memory.Worker.ReconcileHandlers = map[string]*levelState{}
	}
	st := &levelState{stirred: true}
	c.memory.Worker.ReconcileHandlers[id] = st
	return st
}

// isDue respects the delay of a handler that has failed, whatever has happened since (B-11).
func (st *levelState) isDue(at time.Time) bool {
	return !st.record.Delayed.After(at) && (st.stirred || !st.due.IsZero() && !st.due.After(at))
}

// next is when it is to be called, if nothing happens until then; zero: not by itself.
func (st *levelState) next() time.Time {
	if st.stirred && !st.record.Delayed.IsZero() {
		return st.record.Delayed
	}
	return st.due
}

func (e *Engine) callLevel(ctx context.Context, c *cycle, id string, h invoke.Handler, st *levelState) {
	st.stirred, st.due = false, time.Time{}
	if st.record.Started.IsZero() {
		st.record.Started = now()
	}
	s := &share{id: id, policy: h.Policy, before: st.record, level: st}
	view := e.causeView(c)
	view.Reason, view.Old, view.Diff = reasonReconcile, nil, nil
	var again time.Duration
	handlerCtx, cancel := e.untilDeleted(ctx, c, h)
	defer cancel()
	s.outcome = invoke.HandlerAttempt{
		Kind: e.Name, ID: id, Handler: h, View: view, Record: st.record, QuietSuccess: true,
		Prepare: func(req *invoke.Request) {
			req.Flush = e.flusher(c, req)
			s.base = c.current
		},
		Accept: func(req *invoke.Request, failed error) error {
			again = req.RequeueAfter
			doc, err := e.takeChanges(ctx, c, id, req)
			if err != nil {
				return err
			}
			if s.doc = doc; failed == nil && req.Result != nil {
				s.doc, s.raw = patch.Merge(doc, nested(e.Results, map[string]any{id: req.Result}).Unapplied(c.content)), true
			}
			return nil
		},
	}.Run(handlerCtx)
	if len(s.doc) > 0 {
		c.shares = append(c.shares, s)
	}
	if h.ConditionType != "" {
		e.listen(c, s.base, h)
		c.told = append(c.told, told{h.ConditionType, s})
	}
	c.news = append(c.news, func() { st.failed = e.announceAgain(c.before, id, st.failed, s.before, s.outcome) })
	if again == 0 {
		again = h.Interval
	}
	st.settle(s.outcome, again)
}

// settle takes in how an attempt has ended; a handler that has succeeded, or failed for good, is called
// again when something happens, or after a while, if it wants to be.
func (st *levelState) settle(outcome progress.Outcome, again time.Duration) {
	at := now()
	st.record = st.record.WithOutcome(outcome, at)
	switch {
	case outcome.Interrupted:
		st.stirred = true
	case !outcome.Final:
		st.due = st.record.Delayed
	default:
		st.record = progress.Record{}
		if again > 0 {
			st.due = at.Add(again)
		}
	}
}

// nextLevel tells how long it is until a level-triggered handler is due by itself; false if none is.
func (c *cycle) nextLevel(at time.Time) (time.Duration, bool) {
	var all []time.Time
	for _, st := range c.memory.Worker.ReconcileHandlers {
		if next := st.next(); !next.IsZero() {
			all = append(all, next)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	return max(0, slices.MinFunc(all, time.Time.Compare).Sub(at)), true
}
