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

// reasonReconcile is the reason of reconcile handlers.
const reasonReconcile = "reconcile"

// reconcileHandlerState is the state of one reconcile handler of one object. It is kept in memory only: after a restart, all reconcile handlers are called.
type reconcileHandlerState struct {
	record progress.Record // the attempts since the last success
	due    time.Time       // the time of the next call without a change; zero if there is none
	dirty  bool            // there was a change since the last call
	failed bool            // its permanent failure was reported
}

// callReconcileHandlers calls the reconcile handlers if the object or a related object has changed, or if their time has come. Their changes are written
// at the end of the reconcile.
func (e *Engine) callReconcileHandlers(ctx context.Context, r *reconciliation) {
	if len(e.ReconcileHandlers.IDs()) == 0 || r.aborted || r.writeErr != nil || hasEnded(ctx) {
		return
	}
	changes := e.states.TakeForeignChanges(client.ObjectKeyFromObject(r.before), r.known, r.before.GetResourceVersion())
	if len(changes) > 0 {
		for _, st := range r.known.Worker.ReconcileHandlers {
			st.dirty = true
		}
	}
	held := e.holdsReconcileHandlers(r, changes)
	view := e.causeView(r)
	view.Object = r.before // predicates see the object as it is stored, not the pending changes of handlers
	for _, id := range e.ReconcileHandlers.IDs() {
		handler, _ := e.ReconcileHandlers.Get(id)
		if !plan.MatchObject(log.FromContext(ctx), id, handler, view, match.Input{Object: r.content}).Accepts() {
			delete(r.known.Worker.ReconcileHandlers, id)
			e.tracker.replace(trackReader{client.ObjectKeyFromObject(r.before), id}, nil)
			continue
		}
		r.hasReconcileHandlers = true
		if e.stopIfPaused(r) {
			return
		}
		if st := r.reconcileHandlerState(id); st.isDue(now(), held) {
			e.callReconcileHandler(ctx, r, id, handler, st)
		}
	}
}

// reconcileHandlerState returns the state of a reconcile handler. A new handler is dirty.
func (r *reconciliation) reconcileHandlerState(id string) *reconcileHandlerState {
	if st, ok := r.known.Worker.ReconcileHandlers[id]; ok {
		return st
	}
	if r.known.Worker.ReconcileHandlers == nil {
		r.known.Worker.ReconcileHandlers = map[string]*reconcileHandlerState{}
	}
	st := &reconcileHandlerState{dirty: true}
	r.known.Worker.ReconcileHandlers[id] = st
	return st
}

// isDue reports whether the handler must be called. Changes do not shorten the delay after a failure. If held is true, changes are not handled yet.
func (st *reconcileHandlerState) isDue(at time.Time, held bool) bool {
	return !st.record.Delayed.After(at) && (st.dirty && !held || !st.due.IsZero() && !st.due.After(at))
}

// next returns the time of the next call without a change; zero if there is none.
func (st *reconcileHandlerState) next() time.Time {
	if st.dirty && !st.record.Delayed.IsZero() {
		return st.record.Delayed
	}
	return st.due
}

func (e *Engine) callReconcileHandler(ctx context.Context, r *reconciliation, id string, h invoke.Handler, st *reconcileHandlerState) {
	st.dirty, st.due = false, time.Time{}
	if st.record.Started.IsZero() {
		st.record.Started = now()
	}
	s := &handlerPatch{id: id, policy: h.Policy, before: st.record, reconcileHandler: st}
	view := e.causeView(r)
	view.Reason, view.Old, view.Diff = reasonReconcile, nil, nil
	var again time.Duration
	var tracked *tracking
	recorded := e.recording(r.before, r.current)
	handlerCtx, cancel := e.cancelOnDelete(ctx, r, h)
	defer cancel()
	s.outcome = e.runAttempt(handlerCtx, invoke.HandlerAttempt{
		Kind: e.Name, ID: id, Handler: e.withDefaults(h), View: view, Record: st.record, QuietSuccess: true,
		Prepare: func(req *invoke.Request) {
			req.Flush, tracked = e.newFlush(r, req), e.newTracking(r, req)
			s.base, req.WrapClient = r.current, recorded.wrap
		},
		Accept: func(req *invoke.Request, failed error) error {
			again = req.RequeueAfter
			doc, err := e.takeChanges(ctx, r, id, req)
			if err != nil {
				return err
			}
			if s.doc = doc; failed == nil && req.Result != nil {
				s.doc, s.untyped = patch.Merge(doc, patchAt(e.Results, map[string]any{id: req.Result}).Unapplied(r.content)), true
			}
			return nil
		},
	}, time.Time{})
	tracked.end(s.outcome.Success)
	e.noteWrite(r, id, recorded.written())
	e.notePanic(r, id, s.outcome)
	if len(s.doc) > 0 {
		r.handlerPatches = append(r.handlerPatches, s)
	}
	if h.ConditionType != "" {
		e.noteConditionSetByHandler(r, s.base, h)
		r.reconcileOutcome = append(r.reconcileOutcome, reconcileOutcome{h.ConditionType, s})
	}
	r.pendingEvents = append(r.pendingEvents, func() { st.failed = e.postTransition(r.before, id, st.failed, s.before, s.outcome) })
	if again == 0 {
		again = h.Interval
	}
	st.recordOutcome(s.outcome, again)
}

// recordOutcome records how an attempt has ended, and when the handler is called again without a change.
func (st *reconcileHandlerState) recordOutcome(outcome progress.Outcome, again time.Duration) {
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

// nextReconcile returns the time until a reconcile handler is due without a change, and false if none is.
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
