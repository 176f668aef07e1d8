package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/loopguard"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/tracking"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// reasonReconcile is the reason of reconcile handlers.
const reasonReconcile = "reconcile"

// callReconcileHandlers calls the reconcile handlers if the object or a related one has changed, or if they are due anyway. Their changes
// are written at the end of the reconcile.
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

// matchReconcileHandlers finds the reconcile handlers whose filters accept the object, and notes which of them have changes to handle. It
// reports whether calls for changes must wait, because the handlers have caused these changes.
func (e *Engine) matchReconcileHandlers(ctx context.Context, r *reconciliation) (held bool) {
	if !e.traits.retriesOnChange { // otherwise they were taken before the cause handlers were called, and later ones can call those again
		r.takeChanges()
	}
	changes := r.details.Changes
	r.details.Changes = nil
	view := r.causeView()
	view.Object = r.draft.Base() // predicates see the stored object, without handlers' pending changes
	var failing []string
	caused := false // these changes call a handler
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
		if handler.ClusterEvents != "" { // it isn't called for changes
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

// addReconcileHandler adds the state of a reconcile handler when it matches the object for the first time.
func (r *reconciliation) addReconcileHandler(id string, dirty bool) {
	if r.details.ReconcileHandlers == nil {
		r.details.ReconcileHandlers = map[string]*reconcileHandlerState{}
	}
	r.details.ReconcileHandlers[id] = &reconcileHandlerState{dirty: dirty}
}

// blockingHandler returns the first handler that a reconcile handler must wait for, because that one hasn't succeeded or is due itself. It
// returns "" if there is none. Handlers that don't match the object don't block others.
func (r *reconciliation) blockingHandler(h *invoke.Handler) string {
	for _, first := range h.After {
		if st, matches := r.details.ReconcileHandlers[first]; matches && (!st.succeeded || st.isDue(now(), false)) {
			return first
		}
	}
	return ""
}

// callReconcileHandler makes one attempt. event is the Kubernetes Event that the handler is called for, or nil for a handler without
// ClusterEvents.
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
			if event == nil { // tracked objects don't trigger handlers of Events
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
	h.Warnings.WarnMissingUnit(func() logr.Logger { return log.FromContext(ctx).WithValues("handler", id) }, progress.Outcome{Delay: next.After})
	st.priority = next.Priority
	st.recordOutcome(h, p.Outcome, next)
}

// begin starts an attempt. If a change calls the handler before a failed attempt's delay has passed, the new attempt replaces the failed
// one, so that changes don't use up the retries.
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

// recordOutcome records an attempt's outcome, and when the handler is called again even without a change.
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

// callForClusterEvents calls a handler for the Events that wait for it, in order of arrival. While an attempt waits to be retried, the
// later Events wait, too. The handler's state is kept in memory only.
func (e *Engine) callForClusterEvents(ctx context.Context, r *reconciliation, id string, h *invoke.Handler, st *reconcileHandlerState) {
	key := handlerKey{r.draft.Base().GetUID(), id}
	for {
		waiting := e.others.clusterEvents.Get(key)
		if len(waiting) == 0 {
			st.dirty = false // changes to the object don't matter here
			return
		}
		event := waiting[0]
		st.dirty = true
		if st.record.Delayed.After(now()) || hasEnded(ctx) || e.stopIfPaused(r) {
			return
		}
		call := *event
		call.Waiting = func() []*corev1.Event {
			received := event.Waiting() // first, because an Event is added to the handler's list before it is removed from its source
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
