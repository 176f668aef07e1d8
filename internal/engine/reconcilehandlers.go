package engine

import (
	"cmp"
	"context"
	"slices"
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
	if r.calls.aborted || hasEnded(ctx) {
		return
	}
	held := e.matchReconcileHandlers(ctx, r)
	defer e.noteBackoff(r)
	for _, id := range e.others.order {
		st, matches := r.details.ReconcileHandlers[id]
		if !matches {
			continue
		}
		if e.stopIfPaused(r) {
			return
		}
		handler, _ := e.ReconcileHandlers.Get(id)
		if handler.ClusterEvents != "" {
			e.callForClusterEvents(ctx, r, id, handler, st)
		} else if st.isDue(now(), held) && r.blockingHandler(handler) == "" {
			e.callReconcileHandler(ctx, r, id, handler, st, nil)
		}
	}
}

// matchReconcileHandlers finds the reconcile handlers whose filters accept the object, and notes which of them must handle the changes. It reports whether the
// calls for changes must wait, because the handlers have caused these changes.
func (e *Engine) matchReconcileHandlers(ctx context.Context, r *reconciliation) (held bool) {
	if !e.traits.retriesOnChange { // otherwise, they were taken before the cause handlers were called; later ones can call these handlers again
		r.takeChanges()
	}
	changes := r.details.Changes
	r.details.Changes = nil
	view := r.causeView()
	view.Object = r.draft.Base() // predicates see the object as it is stored, not the pending changes of handlers
	var failing []string
	caused := false // by these changes, a handler is called
	for id, handler := range e.ReconcileHandlers.All() {
		if !plan.MatchObject(log.FromContext(ctx), id, handler, view, match.Input{Object: r.draft.Content()}).Accepts() {
			delete(r.details.ReconcileHandlers, id)
			e.others.clusterEvents.Take(handlerKey{r.draft.Base().GetUID(), id})
			e.tracker.Forget(tracking.Reader{Object: client.ObjectKeyFromObject(r.draft.Base()), Handler: id})
			continue
		}
		r.matching.reconciles = true
		st, known := r.details.ReconcileHandlers[id]
		if !known {
			r.addReconcileHandler(id, len(changes) > 0 || !e.queue.hasPredicates.Load())
			continue
		}
		if handler.ClusterEvents != "" { // changes do not call it
			continue
		}
		// A handler that fails and writes the object in each attempt must not call itself without a delay.
		changed := slices.ContainsFunc(changes, func(version string) bool { return !st.isRetrying() || !r.details.Loops.HasWritten(id, version) })
		st.dirty = st.dirty || changed
		if caused = caused || changed; changed && st.isRetrying() {
			failing = append(failing, id)
		}
	}
	if !caused {
		changes = nil
	}
	return e.guardReconciles(r, changes, failing)
}

// addReconcileHandler adds the state of a reconcile handler that matches the object for the first time.
func (r *reconciliation) addReconcileHandler(id string, dirty bool) {
	if r.details.ReconcileHandlers == nil {
		r.details.ReconcileHandlers = map[string]*reconcileHandlerState{}
	}
	r.details.ReconcileHandlers[id] = &reconcileHandlerState{dirty: dirty}
}

// blockingHandler returns the first handler for which a reconcile handler waits, because its last call has not succeeded, or because it waits itself; empty if there
// is none. Handlers that do not match the object block no others.
func (r *reconciliation) blockingHandler(h *invoke.Handler) string {
	for _, first := range h.After {
		if st, matches := r.details.ReconcileHandlers[first]; matches && (!st.succeeded || st.isDue(now(), false)) {
			return first
		}
	}
	return ""
}

// callReconcileHandler makes one attempt. event is the Kubernetes Event for which the handler is called; nil for a handler without ClusterEvents.
func (e *Engine) callReconcileHandler(
	ctx context.Context, r *reconciliation, id string, h *invoke.Handler, st *reconcileHandlerState, event *invoke.ClusterEvent,
) {
	st.begin()
	h = withPolicy(h, e.reconcilePolicy(h, client.ObjectKeyFromObject(r.draft.Base()), st))
	failures := st.failures
	var next invoke.Requeue
	p := &commit.HandlerPatch{ID: id, Policy: h.Policy, Before: st.record, Repeat: func() { st.dirty, st.succeeded = true, false }}
	p.Fail = func() {
		st.record, st.failures = p.Before, failures
		st.recordOutcome(h, p.Outcome, next)
	}
	view := r.attemptView()
	view.Reason, view.Old, view.Diff, view.Before = reasonReconcile, nil, nil, view.After
	if event != nil {
		view.Reason = reasonClusterEvent
	}
	var tracked *tracking.Attempt
	var recorder *loopguard.Recorder
	p.Outcome = invoke.HandlerAttempt{
		Hooks: e.traits.hooks, Restrict: e.cancelOnDelete(r, h),
		Kind: e.Name, ID: id, Handler: h, View: view, Record: st.record, QuietSuccess: true,
		Once: event != nil && h.Policy.Retries == nil,
		Prepare: func(req *invoke.Request) {
			req.ClusterEvent = event
			tracked = e.tracker.Begin(tracking.Reader{Object: client.ObjectKeyFromObject(r.draft.Base()), Handler: id})
			req.Flush, req.WrapClient = r.flush(req), e.recording(r, &recorder)
			if event == nil { // changes of tracked objects do not trigger handlers of Events
				req.Track = tracked.Track
			}
			p.Base = r.draft.Current().Content
		},
		Accept: func(req *invoke.Request, failed error) error {
			next = req.Requeue
			doc, err := e.committer.TakeChanges(ctx, r.draft, id, req.Object)
			if err != nil {
				return err
			}
			if p.Patch = doc; failed == nil && req.Result != nil {
				p.Patch, p.Untyped = patch.Merge(doc, patch.At(e.Results, map[string]any{id: req.Result}).Unapplied(r.draft.Content())), true
			}
			return nil
		},
	}.Run(ctx)
	tracked.End(p.Outcome.Success)
	r.draft.Add(p)
	r.noteAttempt(attempt{HandlerPatch: p, conditionType: h.ConditionType, reconciles: st}, recorder)
	h.Warnings.WarnMissingUnit(log.FromContext(ctx).WithValues("handler", id), progress.Outcome{Delay: next.After})
	st.priority = next.Priority
	st.recordOutcome(h, p.Outcome, next)
}

// begin starts an attempt. If a change calls the handler before the delay of a failed attempt has passed, the new attempt takes the place of the failed one, so
// that changes do not use up the retries.
func (st *reconcileHandlerState) begin() {
	if st.record.Delayed.After(now()) && st.record.Retries > 0 {
		st.record.Retries--
	}
	st.record.Delayed, st.record.Attempted = time.Time{}, time.Time{}
	if st.record.Started.IsZero() {
		st.record.Started = now()
	}
	st.dirty, st.due = false, time.Time{}
}

// recordOutcome records how an attempt has ended, and when the handler is called again without a change.
func (st *reconcileHandlerState) recordOutcome(h *invoke.Handler, outcome progress.Outcome, next invoke.Requeue) {
	at := now()
	st.record, st.succeeded = st.record.WithOutcome(outcome, at), outcome.Success
	switch {
	case outcome.Interrupted:
		st.dirty = true
	case !outcome.Final:
		st.failures++
		st.due = st.record.Delayed
	case outcome.Success && next.After <= 0 && next.RateLimited:
		st.due, st.record = at.Add(nextBackoff(h.Policy)), progress.Record{}
		st.failures++
	default:
		st.record = progress.Record{}
		again := h.Interval
		if outcome.Success {
			st.failures, again = 0, cmp.Or(max(0, next.After), again)
		}
		if again > 0 {
			st.due = at.Add(again)
		}
	}
}

// callForClusterEvents calls a handler for the Events that wait for it, in the order of their arrival. While an attempt must be repeated, the later Events
// wait. The state of the handler is kept in memory only.
func (e *Engine) callForClusterEvents(ctx context.Context, r *reconciliation, id string, h *invoke.Handler, st *reconcileHandlerState) {
	key := handlerKey{r.draft.Base().GetUID(), id}
	for {
		waiting := e.others.clusterEvents.Get(key)
		if len(waiting) == 0 {
			st.dirty = false // changes of the object are irrelevant
			return
		}
		event := waiting[0]
		st.dirty = true
		if st.record.Delayed.After(now()) || hasEnded(ctx) || e.stopIfPaused(r) {
			return
		}
		call := *event
		call.Waiting = func() []*corev1.Event {
			received := event.Waiting() // first, because Events are added to the inbox before they are removed from there
			for _, other := range withoutClusterEvent(e.others.clusterEvents.Get(key), event) {
				received = append(received, other.Event)
			}
			return received
		}
		e.callReconcileHandler(ctx, r, id, h, st, &call)
		if !st.record.Started.IsZero() || st.dirty {
			log.FromContext(ctx).V(1).Info("The Event is handled again", "handler", id, "event", event.Name)
			return
		}
		e.others.clusterEvents.Update(key, func(waiting []*invoke.ClusterEvent, _ bool) ([]*invoke.ClusterEvent, bool) {
			waiting = withoutClusterEvent(waiting, event)
			return waiting, len(waiting) > 0
		})
	}
}
