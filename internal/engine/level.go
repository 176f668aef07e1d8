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
type reconcileState struct {
	record progress.Record // of the attempts since the last success
	due    time.Time       // when it is to be called, whatever happens; zero: not by itself
	dirty  bool            // something has happened since it was called
	failed bool            // for good, as was told
}

// level calls the level-triggered handlers if something has happened to the object or around it, or if
// their time has come. What they change is written at the end of the pass.
func (e *Engine) callReconcileHandlers(ctx context.Context, r *reconciliation) {
	if len(e.ReconcileHandlers.IDs()) == 0 || r.stopped || r.writeErr != nil || hasEnded(ctx) {
		return
	}
	if e.states.TakeForeignChange(client.ObjectKeyFromObject(r.before), r.known, r.before.GetResourceVersion()) {
		for _, st := range r.known.Worker.ReconcileHandlers {
			st.dirty = true
		}
	}
	for _, id := range e.ReconcileHandlers.IDs() {
		handler, _ := e.ReconcileHandlers.Get(id)
		if !plan.MatchObject(log.FromContext(ctx), id, handler, r.view, match.Input{Object: r.content}) {
			delete(r.known.Worker.ReconcileHandlers, id)
			continue
		}
		r.hasReconcileHandlers = true
		if e.stopIfPaused(r) {
			return
		}
		if st := r.reconcileState(id); st.isDue(now()) {
			e.callReconcileHandler(ctx, r, id, handler, st)
		}
	}
}

// levelState is what is known of a handler; at first sight, it is to be called.
func (r *reconciliation) reconcileState(id string) *reconcileState {
	if st, ok := r.known.Worker.ReconcileHandlers[id]; ok {
		return st
	}
	if r.known.Worker.ReconcileHandlers == nil {
		r.known.Worker.ReconcileHandlers = map[string]*reconcileState{}
	}
	st := &reconcileState{dirty: true}
	r.known.Worker.ReconcileHandlers[id] = st
	return st
}

// isDue respects the delay of a handler that has failed, whatever has happened since (B-11).
func (st *reconcileState) isDue(at time.Time) bool {
	return !st.record.Delayed.After(at) && (st.dirty || !st.due.IsZero() && !st.due.After(at))
}

// next is when it is to be called, if nothing happens until then; zero: not by itself.
func (st *reconcileState) next() time.Time {
	if st.dirty && !st.record.Delayed.IsZero() {
		return st.record.Delayed
	}
	return st.due
}

func (e *Engine) callReconcileHandler(ctx context.Context, r *reconciliation, id string, h invoke.Handler, st *reconcileState) {
	st.dirty, st.due = false, time.Time{}
	if st.record.Started.IsZero() {
		st.record.Started = now()
	}
	s := &handlerPatch{id: id, policy: h.Policy, before: st.record, reconcileHandler: st}
	view := e.causeView(r)
	view.Reason, view.Old, view.Diff = reasonReconcile, nil, nil
	var again time.Duration
	handlerCtx, cancel := e.cancelOnDelete(ctx, r, h)
	defer cancel()
	s.outcome = invoke.HandlerAttempt{
		Kind: e.Name, ID: id, Handler: h, View: view, Record: st.record, QuietSuccess: true,
		Prepare: func(req *invoke.Request) {
			req.Flush = e.newFlush(r, req)
			s.base = r.current
		},
		Accept: func(req *invoke.Request, failed error) error {
			again = req.RequeueAfter
			doc, err := e.takeChanges(ctx, r, id, req)
			if err != nil {
				return err
			}
			if s.doc = doc; failed == nil && req.Result != nil {
				s.doc, s.untyped = patch.Merge(doc, nested(e.Results, map[string]any{id: req.Result}).Unapplied(r.content)), true
			}
			return nil
		},
	}.Run(handlerCtx)
	if len(s.doc) > 0 {
		r.handlerPatches = append(r.handlerPatches, s)
	}
	if h.ConditionType != "" {
		e.noteConditions(r, s.base, h)
		r.reconcileOutcome = append(r.reconcileOutcome, reconcileOutcome{h.ConditionType, s})
	}
	r.pendingEvents = append(r.pendingEvents, func() { st.failed = e.postTransition(r.before, id, st.failed, s.before, s.outcome) })
	if again == 0 {
		again = h.Interval
	}
	st.recordOutcome(s.outcome, again)
}

// settle takes in how an attempt has ended; a handler that has succeeded, or failed for good, is called
// again when something happens, or after a while, if it wants to be.
func (st *reconcileState) recordOutcome(outcome progress.Outcome, again time.Duration) {
	at := now()
	st.record = st.record.WithOutcome(outcome, at)
	switch {
	case outcome.Interrupted:
		st.dirty = true
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
func (r *reconciliation) nextReconcile(at time.Time) (time.Duration, bool) {
	var all []time.Time
	for _, st := range r.known.Worker.ReconcileHandlers {
		if next := st.next(); !next.IsZero() {
			all = append(all, next)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	return max(0, slices.MinFunc(all, time.Time.Compare).Sub(at)), true
}
