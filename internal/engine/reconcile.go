package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/lazylog"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// Reconcile handles the object of a key. The key is the only input: the cause follows from the state of the object, and the due handlers follow from its
// records.
func (e *Engine) Reconcile(ctx context.Context, req reconcile.Request) (result reconcile.Result, err error) {
	key := req.NamespacedName
	defer e.trackReconcile(key)()
	fault := error(nil)
	if e.CallsUserCode {
		result, err, fault = e.handleApart(ctx, key)
	} else {
		fault = guard.Catch("", func() error { result, err = e.handle(ctx, key); return nil })
	}
	if fault != nil {
		metrics.HandlerPanics.WithLabelValues(e.Name, "reconcile").Inc()
		log.FromContext(ctx).Error(fault, "A reconcile panicked; retrying with a backoff", "stack", guard.Trace(fault))
		return e.requeueErrors(key, reconcile.Result{}, fault)
	}
	return result, err
}

// handleApart is handle in a goroutine of its own. It is a function of its own, because its variables are on the heap.
func (e *Engine) handleApart(ctx context.Context, key types.NamespacedName) (result reconcile.Result, err, fault error) {
	fault = guard.Call("", func() error { result, err = e.handle(ctx, key); return nil })
	return result, err, fault
}

// handle handles the observed events of a key, and the object of the key or its deletion.
func (e *Engine) handle(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	result, err := e.layered(ctx, key)
	if result.RequeueAfter > 0 {
		if result.Priority == nil && e.queue.promoter.IsPromoted(key) {
			result.Priority = new(0) // the queue would keep the priority of the promotion
		}
		e.states.MarkQueuedAt(key, time.Now().Add(result.RequeueAfter))
	}
	return result, err
}

// A step is a part of a reconcile.
type step struct {
	// reasons are the reasons for which run ends a reconcile or keeps back the cause; the metric counts the objects by them.
	reasons []HoldReason
	// check returns why the step would hold an object now. It has no effects. It is nil for a step that never waits for others.
	check func(*Engine, subject) Hold
	// run takes the object through the step. A hold of the object ends the reconcile. A hold of the cause keeps back its handlers, and the reconcile continues.
	run func(*Engine, context.Context, *reconciliation) (Hold, error)
}

// steps is the order of a reconcile. Nothing is decided on a state that may be outdated, so the cause follows the freshness. The annotation, the epoch, the finalizer
// and the holds of the cause depend on the cause and on the matching handlers.
var steps = []step{
	{run: (*Engine).leaveShard},
	{[]HoldReason{HeldByCache, HeldByWrite}, (*Engine).checkFreshness, (*Engine).awaitFreshCache},
	{run: (*Engine).detectCause},
	{[]HoldReason{HeldByAnnotation}, (*Engine).checkAnnotation, (*Engine).obeyAnnotation},
	{[]HoldReason{HeldByEpoch}, nil, (*Engine).verifyEpoch},
	{run: (*Engine).leaveShard}, // the epoch may have replaced the object by the one of the API server
	{[]HoldReason{HeldByFinalizer}, nil, (*Engine).ensureFinalizer},
	{nil, (*Engine).checkBackground, (*Engine).startBackground},
	{nil, (*Engine).checkCause, (*Engine).selectOrHold}, // the reasons are those of the holds
	{nil, (*Engine).checkLoops, (*Engine).guardLoops},   // the metric counts a loop until it ends
	{run: (*Engine).planCalls},
	{run: (*Engine).callHandlers},
	{run: (*Engine).commit},
	{run: (*Engine).schedule},
}

// reconcile takes the object of a key through the steps.
func (e *Engine) reconcile(ctx context.Context, key types.NamespacedName) (none reconcile.Result, err error) {
	r, err := e.observe(ctx, key)
	if r == nil || err != nil {
		e.noteHold(key, "")
		e.noteLoop(key, false)
		return none, err
	}
	e.noteLoop(key, r.details.Loops.IsLooping())
	defer r.unlock()
	ctx = log.IntoContext(ctx, lazylog.New(log.FromContext(ctx)).WithValues("uid", string(r.draft.Base().GetUID())))
	ctx = objectstate.ContextWithMemos(ctx, e.states.Memos(r.draft.Base().GetUID()))
	for _, s := range steps {
		hold, err := s.run(e, ctx, r)
		switch {
		case err == nil && !hold.isActive():
		case err == nil && hold.Scope == HoldsCauses:
			r.holdCauses(hold)
		default:
			e.noteHold(key, cmp.Or(hold.Reason, r.held.Reason))
			return hold.result(), err
		}
	}
	e.noteHold(key, r.held.Reason)
	return r.result, nil
}

// trackReconcile records that a worker has begun a reconcile. The returned function records its end.
func (e *Engine) trackReconcile(key types.NamespacedName) (done func()) {
	e.states.MarkStarted(key)
	e.queue.promoter.Begin(key)
	began := time.Now()
	e.queue.running.Set(key, struct{}{})
	e.queue.finished.CompareAndSwap(0, e.age()) // the liveness check measures from the first reconcile
	return func() {
		e.queue.promoter.End(key, time.Since(began))
		e.queue.finished.Store(e.age()) // first, so that QueueStats never returns an earlier end without a running reconcile
		e.queue.running.Take(key)
	}
}

// age returns the time since the creation of the engine in nanoseconds, at least 1.
func (e *Engine) age() int64 { return max(1, int64(time.Since(e.queue.created))) }

// callHandlers calls the due handlers: cause handlers, then reconcile handlers, and optional delete handlers of an object without our finalizer.
func (e *Engine) callHandlers(ctx context.Context, r *reconciliation) (Hold, error) {
	if e.traits.writesEventChanges {
		e.takeEventChanges(ctx, r)
	}
	if err := e.callCauseHandlers(ctx, r); err != nil {
		return Hold{}, err
	}
	if len(e.ReconcileHandlers.IDs()) > 0 {
		e.callReconcileHandlers(ctx, r)
	}
	if r.session.Cause.Reason == cause.Free {
		e.callOptionalDelete(ctx, r)
	}
	return Hold{}, nil
}

// Holds returns why the engine keeps back work for an object that it has observed: the holds of all layers and steps that the object would meet now, in their order.
// It has no effects. While a worker reconciles the object, what the process keeps about its writes is not known.
func (e *Engine) Holds(obj client.Object) []Hold {
	known := e.tryCopyState(obj.GetUID())
	if known == nil {
		known = &objectState{}
	}
	return e.holdsOf(subject{key: client.ObjectKeyFromObject(obj), obj: obj, known: known})
}

func (e *Engine) holdsOf(s subject) (holds []Hold) {
	for _, l := range e.layers {
		if l.hold == nil {
			continue
		}
		if h := l.hold(s.key); h.isActive() {
			holds = append(holds, h)
		}
	}
	for _, step := range steps {
		if step.check == nil {
			continue
		}
		if h := step.check(e, s); h.isActive() {
			holds = append(holds, h)
		}
	}
	return holds
}

// heldByStep returns an empty set for each of the reasons for which a step ends a reconcile or keeps back a cause.
func (e *Engine) heldByStep() (held []*heldObjects) {
	for _, s := range steps {
		for _, reason := range s.reasons {
			held = append(held, newHeldObjects(e.Name, reason))
		}
	}
	for _, one := range e.CauseHolds {
		if !slices.ContainsFunc(held, func(h *heldObjects) bool { return h.reason == one.Reason }) {
			held = append(held, newHeldObjects(e.Name, one.Reason))
		}
	}
	return held
}
