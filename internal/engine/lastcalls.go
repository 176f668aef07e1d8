package engine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
)

// planLastCalls plans the calls of those reconcile handlers that are called for deleted objects, unless predicates have rejected the
// deletion. If the object was created again, they are called for the new object instead.
func (e *Engine) planLastCalls(ctx context.Context, key types.NamespacedName, t *tombstone) {
	if !e.callsAfterDeletion() || e.states.Observed(key) != nil || len(e.states.TakeForeignChanges(key, t.last.GetUID(), "")) == 0 {
		return
	}
	calls := &lastCalls{last: t.last, memos: t.memos, handlers: map[string]*reconcileHandlerState{}}
	view, input, err := e.observedView(t.last, reasonReconcile)
	if err != nil {
		return // the object could not be handled before, either
	}
	for _, id := range e.others.order {
		handler, _ := e.ReconcileHandlers.Get(id)
		if !handler.CalledAfterDeletion || !plan.MatchObject(log.FromContext(ctx), id, handler, view, input).Accepts() {
			continue
		}
		calls.handlers[id] = &reconcileHandlerState{dirty: true}
		if details := t.known.Worker.Details; details != nil && details.ReconcileHandlers[id] != nil {
			calls.handlers[id].failures = details.ReconcileHandlers[id].failures
		}
	}
	e.gone.lastCalls.Set(key, calls)
}

// callAfterDeletion calls the due reconcile handlers for a deleted object. It returns the time until the next call, or 0 if none is left.
func (e *Engine) callAfterDeletion(ctx context.Context, key types.NamespacedName, calls *lastCalls) (wait time.Duration) {
	if e.states.Observed(key) != nil {
		e.gone.lastCalls.Take(key)
		return 0
	}
	ctx = objectstate.ContextWithMemos(ctx, calls.memos)
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("uid", string(calls.last.GetUID())))
	changed := len(e.states.TakeForeignChanges(key, calls.last.GetUID(), "")) > 0
	failing := false
	for _, id := range e.others.order {
		st, matches := calls.handlers[id]
		if !matches {
			continue
		}
		handler, _ := e.ReconcileHandlers.Get(id)
		if st.dirty = st.dirty || changed; st.isDue(now(), false) && !hasEnded(ctx) {
			e.attemptAfterDeletion(ctx, key, calls.last, id, handler, st)
		}
		if failing = failing || st.failures > 0; !st.due.IsZero() {
			wait = earlier(wait, max(time.Until(st.due), time.Millisecond))
		}
	}
	if e.queue.backingOff.Take(key); failing && e.RateLimiter != nil {
		e.queue.backingOff.Set(key, true)
	}
	if wait == 0 {
		e.gone.lastCalls.Take(key)
		e.queue.backingOff.Take(key)
	}
	return wait
}

// attemptAfterDeletion makes one attempt of a reconcile handler with a deleted object's last known state. Nothing is written.
func (e *Engine) attemptAfterDeletion(ctx context.Context, key types.NamespacedName, last client.Object, id string, h *invoke.Handler, st *reconcileHandlerState) {
	st.begin()
	h = withPolicy(h, e.reconcilePolicy(h, key, st))
	var next invoke.Requeue
	outcome := invoke.HandlerAttempt{
		Hooks: e.traits.hooks,
		Kind:  e.Name, ID: id, Handler: h, View: e.newView(last, reasonReconcile), Record: st.record, QuietSuccess: true,
		Accept: func(req *invoke.Request, _ error) error {
			next = req.Requeue
			return nil
		},
	}.Run(ctx)
	st.recordOutcome(h, outcome, next)
}
