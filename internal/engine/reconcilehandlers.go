package engine

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/loopguard"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/internal/tracking"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// reasonReconcile is the reason of reconcile handlers.
const reasonReconcile = "reconcile"

// callReconcileHandlers calls the reconcile handlers if the object or a related object has changed, or if their time has come. Their changes are written
// at the end of the reconcile.
func (e *Engine) callReconcileHandlers(ctx context.Context, r *reconciliation) {
	if r.Aborted || hasEnded(ctx) {
		return
	}
	changes := e.states.TakeForeignChanges(client.ObjectKeyFromObject(r.Base()), r.Base().GetUID(), r.Base().GetResourceVersion())
	if len(changes) > 0 {
		for _, st := range r.details.ReconcileHandlers {
			st.dirty = true
		}
	}
	loops := r.details.Loops
	held := loops != nil && loops.StartReconcile(now(), changes, e.LoopLimit) > 0
	view := e.causeView(r)
	view.Object = r.Base() // predicates see the object as it is stored, not the pending changes of handlers
	for _, id := range e.ReconcileHandlers.IDs() {
		handler, _ := e.ReconcileHandlers.Get(id)
		if !plan.MatchObject(log.FromContext(ctx), id, handler, view, match.Input{Object: r.Content()}).Accepts() {
			delete(r.details.ReconcileHandlers, id)
			e.clusterEvents.Take(handlerKey{r.Base().GetUID(), id})
			e.tracker.Forget(tracking.Reader{Object: client.ObjectKeyFromObject(r.Base()), Handler: id})
			continue
		}
		r.matching.reconciles = true
		if e.stopIfPaused(r) {
			return
		}
		st := r.reconcileHandlerState(id)
		if handler.ClusterEvents != "" {
			e.callForClusterEvents(ctx, r, id, handler, st)
		} else if st.isDue(now(), held) {
			e.callReconcileHandler(ctx, r, id, handler, st, nil)
		}
	}
}

// reconcileHandlerState returns the state of a reconcile handler. A new handler is dirty.
func (r *reconciliation) reconcileHandlerState(id string) *reconcileHandlerState {
	if st, ok := r.details.ReconcileHandlers[id]; ok {
		return st
	}
	if r.details.ReconcileHandlers == nil {
		r.details.ReconcileHandlers = map[string]*reconcileHandlerState{}
	}
	st := &reconcileHandlerState{dirty: true}
	r.details.ReconcileHandlers[id] = st
	return st
}

// callReconcileHandler makes one attempt. event is the Kubernetes Event for which the handler is called; nil for a handler without ClusterEvents.
func (e *Engine) callReconcileHandler(
	ctx context.Context, r *reconciliation, id string, h invoke.Handler, st *reconcileHandlerState, event *invoke.ClusterEvent,
) {
	st.dirty, st.due = false, time.Time{}
	if st.record.Started.IsZero() {
		st.record.Started = now()
	}
	p := &commit.HandlerPatch{ID: id, Policy: h.Policy, Before: st.record, Repeat: func() { st.dirty = true }}
	p.Fail = func() {
		st.record = p.Before
		st.recordOutcome(p.Outcome, 0)
	}
	view := r.attemptView()
	view.Reason, view.Old, view.Diff, view.Before = reasonReconcile, nil, nil, view.After
	if event != nil {
		view.Reason = reasonClusterEvent
	}
	var again time.Duration
	var tracked *tracking.Attempt
	var recorder *loopguard.Recorder
	p.Outcome = invoke.HandlerAttempt{
		Hooks: e.hooks, Restrict: e.cancelOnDelete(r, h),
		Kind: e.Name, ID: id, Handler: new(e.withDefaults(h)), View: view, Record: st.record, QuietSuccess: true,
		Once: event != nil && h.Policy.Retries == nil,
		Prepare: func(req *invoke.Request) {
			req.ClusterEvent = event
			tracked = e.tracker.Begin(tracking.Reader{Object: client.ObjectKeyFromObject(r.Base()), Handler: id})
			req.Flush, req.WrapClient = r.flush(req), e.recording(r, &recorder)
			if event == nil { // changes of tracked objects do not trigger handlers of Events
				req.Track = tracked.Track
			}
			p.Base = r.Current().Content
		},
		Accept: func(req *invoke.Request, failed error) error {
			again = req.RequeueAfter
			doc, err := e.committer.TakeChanges(ctx, &r.Draft, id, req.Object)
			if err != nil {
				return err
			}
			if p.Patch = doc; failed == nil && req.Result != nil {
				p.Patch, p.Untyped = patch.Merge(doc, patch.At(e.Results, map[string]any{id: req.Result}).Unapplied(r.Content())), true
			}
			return nil
		},
	}.Run(ctx)
	tracked.End(p.Outcome.Success)
	r.Add(p)
	r.noteAttempt(attempt{HandlerPatch: p, conditionType: h.ConditionType, reconciles: st}, recorder)
	if again == 0 {
		again = h.Interval
	}
	st.recordOutcome(p.Outcome, again)
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

// callForClusterEvents calls a handler for the Events that wait for it, in the order of their arrival. While an attempt must be repeated, the later Events
// wait. The state of the handler is kept in memory only.
func (e *Engine) callForClusterEvents(ctx context.Context, r *reconciliation, id string, h invoke.Handler, st *reconcileHandlerState) {
	key := handlerKey{r.Base().GetUID(), id}
	for {
		waiting := e.clusterEvents.Get(key)
		if len(waiting) == 0 {
			st.dirty = false // changes of the object are irrelevant
			return
		}
		event := waiting[0]
		st.dirty = true
		if !st.isDue(now(), false) || hasEnded(ctx) || e.stopIfPaused(r) {
			return
		}
		call := *event
		call.Waiting = func() []*corev1.Event {
			received := event.Waiting() // first, because Events are added to the inbox before they are removed from there
			for _, other := range withoutClusterEvent(e.clusterEvents.Get(key), event) {
				received = append(received, other.Event)
			}
			return received
		}
		e.callReconcileHandler(ctx, r, id, h, st, &call)
		if !st.record.Started.IsZero() || st.dirty {
			log.FromContext(ctx).V(1).Info("The Event is handled again", "handler", id, "event", event.Name)
			return
		}
		e.clusterEvents.Update(key, func(waiting []*invoke.ClusterEvent, _ bool) ([]*invoke.ClusterEvent, bool) {
			waiting = withoutClusterEvent(waiting, event)
			return waiting, len(waiting) > 0
		})
	}
}
