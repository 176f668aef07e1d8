package engine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/errtext"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
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
		return e.requeueErrors(key)(reconcile.Result{}, fault)
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
		if result.Priority == nil && e.promoter.IsPromoted(key) {
			result.Priority = new(0) // the queue would keep the priority of the promotion
		}
		e.states.MarkQueuedAt(key, time.Now().Add(result.RequeueAfter))
	}
	return result, err
}

// requeueErrors returns a function that replaces expected errors by a delay, see requeueFor, and records the errors for explanations.
func (e *Engine) requeueErrors(key types.NamespacedName) func(reconcile.Result, error) (reconcile.Result, error) {
	return func(result reconcile.Result, err error) (reconcile.Result, error) {
		err = errtext.Limit(err)
		delay, unexpected := requeueFor(err)
		if delay == 0 && unexpected == nil {
			err = nil // the object is deleted
		}
		if err == nil {
			e.failures.Take(key)
		} else {
			e.failures.Set(key, failure{err, delay > 0})
		}
		if delay > 0 || unexpected != nil {
			return reconcile.Result{RequeueAfter: delay, Priority: new(retrying)}, unexpected
		}
		return result, nil
	}
}

// callHandlers calls the due handlers: cause handlers, then reconcile handlers, and optional delete handlers of an object without our finalizer.
func (e *Engine) callHandlers(ctx context.Context, r *reconciliation) error {
	if err := e.callCauseHandlers(ctx, r); err != nil {
		return err
	}
	if len(e.ReconcileHandlers.IDs()) > 0 {
		e.callReconcileHandlers(ctx, r)
	}
	if r.session.Cause.Reason == cause.Free {
		e.callOptionalDelete(ctx, r)
	}
	return nil
}

// commit writes the outcomes of the reconcile. If the cause is over, the write removes the records and stores the baseline.
func (e *Engine) commit(ctx context.Context, r *reconciliation) error {
	r.reportConditions(ctx)
	if !r.session.Cause.Reason.HasHandlers() && !r.session.HasLeftovers() && !r.draft.HasChanges() {
		r.postEvents(r.draft.Base())
		return nil
	}
	r.session.EndCalls(r.session.Cause.Reason == cause.Delete && e.supervisor.Busy(r.draft.Base().GetUID()))
	if r.session.Cause.Reason == cause.Resume && r.hasNothingToWrite() {
		r.noteHandled()
		r.postEvents(r.draft.Base())
		return nil
	}
	written, err := r.write(ctx)
	if err != nil || written == nil {
		return err
	}
	if r.session.IsFinished() && len(r.matching.selection.Selected) > 0 {
		sum := r.session.Records.Summary()
		log.FromContext(ctx).Info("Handled", "reason", r.session.Cause.Reason, "succeeded", sum.Succeeded, "failed", sum.Failed)
	}
	return nil
}

// trackReconcile records that a worker has begun a reconcile. The returned function records its end.
func (e *Engine) trackReconcile(key types.NamespacedName) (done func()) {
	e.states.MarkStarted(key)
	e.promoter.Begin(key)
	began := time.Now()
	e.running.Set(key, struct{}{})
	e.finished.CompareAndSwap(0, e.age()) // the liveness check measures from the first reconcile
	return func() {
		e.promoter.End(key, time.Since(began))
		e.finished.Store(e.age()) // first, so that QueueStats never returns an earlier end without a running reconcile
		e.running.Take(key)
	}
}

// age returns the time since the creation of the engine in nanoseconds, at least 1.
func (e *Engine) age() int64 { return max(1, int64(time.Since(e.created))) }
