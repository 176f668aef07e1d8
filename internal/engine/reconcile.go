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
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// Reconcile handles a key's object. The key is the only input, because the cause follows from the object's state, and the due handlers from
// its records.
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

// handleApart is handle in its own goroutine. It is a separate function, because its variables are on the heap.
func (e *Engine) handleApart(ctx context.Context, key types.NamespacedName) (result reconcile.Result, err, fault error) {
	fault = guard.Call("", func() error { result, err = e.handle(ctx, key); return nil })
	return result, err, fault
}

// handle handles a key's observed events, and its object or the object's deletion.
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

// A step is one part of a reconcile.
type step struct {
	// reasons are why run may stop a reconcile or hold the cause; the metric counts objects by them.
	reasons []HoldReason
	// check returns why the step would hold an object now. It has no side effects. It is nil for a step that never holds anything, or that
	// can't say so in advance.
	check func(*Engine, subject) Hold
	// run takes the object through the step. A hold of the object stops the reconcile. If only the cause is held, its handlers aren't
	// called and the reconcile continues.
	run func(*Engine, context.Context, *reconciliation) (Hold, error)
}

// steps is the order of a reconcile. Nothing is decided on state that may be outdated, so the cause comes after the freshness check. The
// annotation, the epoch, the finalizer and the holds of the cause depend on the cause and on the matching handlers.
var steps = []step{
	{run: (*Engine).leaveShard},
	{[]HoldReason{HeldByCache, HeldByWrite}, (*Engine).checkFreshness, (*Engine).awaitFreshCache},
	{run: (*Engine).detectCause},
	{run: (*Engine).makeWhole},
	{[]HoldReason{HeldByAnnotation}, (*Engine).checkAnnotation, (*Engine).obeyAnnotation},
	{[]HoldReason{HeldByEpoch}, nil, (*Engine).verifyEpoch},
	{run: (*Engine).leaveShard}, // verifyEpoch may have replaced the object with the API server's
	{[]HoldReason{HeldByFinalizer}, nil, (*Engine).ensureFinalizer},
	{nil, (*Engine).checkBackground, (*Engine).startBackground},
	{nil, (*Engine).checkCause, (*Engine).selectOrHold}, // the reasons come from CauseHolds
	{[]HoldReason{HeldByRollout}, (*Engine).checkRollout, (*Engine).enterRollout},
	{nil, (*Engine).checkLoops, (*Engine).guardLoops}, // loops are counted until they stop, see noteLoop
	{run: (*Engine).planCalls},
	{run: (*Engine).callHandlers},
	{run: (*Engine).commit},
	{run: (*Engine).schedule},
}

// reconcile takes a key's object through the steps.
func (e *Engine) reconcile(ctx context.Context, key types.NamespacedName) (none reconcile.Result, err error) {
	r, err := e.observe(ctx, key)
	if r == nil || err != nil {
		e.noteHold(key, "")
		e.noteLoop(key, false)
		return none, err
	}
	e.noteLoop(key, r.details.Loops.IsLooping())
	defer r.unlock()
	ctx = log.IntoContext(ctx, LazyLogger(log.FromContext(ctx)).WithValues("uid", string(r.draft.Base().GetUID())))
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

// trackReconcile records that a worker has started a reconcile. The returned function records that it is done.
func (e *Engine) trackReconcile(key types.NamespacedName) (done func()) {
	e.states.MarkStarted(key)
	e.queue.promoter.Begin(key)
	began := time.Now()
	e.queue.running.Set(key, struct{}{})
	e.queue.finished.CompareAndSwap(0, e.age()) // the liveness check measures from the first reconcile
	return func() {
		e.queue.promoter.End(key, time.Since(began))
		e.queue.finished.Store(e.age()) // first, so that QueueStats never sees an old time without a running reconcile
		e.queue.running.Take(key)
	}
}

// age returns the nanoseconds since the engine was created, and at least 1.
func (e *Engine) age() int64 { return max(1, int64(time.Since(e.queue.created))) }

// callHandlers calls the due handlers: cause handlers, then reconcile handlers, then optional delete handlers if the object is being
// deleted without our finalizer.
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

// Holds returns why the engine holds work for an object that it has observed. These are the holds of all layers and steps that the object
// would meet now, in order. Holds has no side effects. While a worker reconciles the object, it leaves out what depends on the process's
// memory of its writes.
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

// heldByStep returns an empty set for each reason that a step has to stop a reconcile or hold a cause.
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
