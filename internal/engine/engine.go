package engine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/errtext"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
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
func (e *Engine) handle(ctx context.Context, key types.NamespacedName) (result reconcile.Result, err error) {
	if e.Scope != nil || e.Shard != nil {
		switch {
		case !e.inScope(key):
			return e.requeueErrors(key)(e.release(ctx, key))
		case e.deferUntilAdmitted(ctx, key):
			return reconcile.Result{}, nil
		}
	}
	var again, vanished time.Duration
	if len(e.EventHandlers.IDs()) > 0 {
		again = e.callEventHandlers(ctx, key)
	}
	if e.Pause != nil && e.deferIfPaused(ctx, key) {
		return requeueBefore(reconcile.Result{}, again), nil
	}
	if e.states.HasDeleted(key) || len(e.tombstones.Get(key)) > 0 {
		vanished = e.handleDeleted(ctx, key)
	}
	if last := e.lastCalls.Get(key); last != nil {
		again = earlier(again, e.callAfterDeletion(ctx, key, last))
	}
	if result, err = e.requeueErrors(key)(e.reconcile(ctx, key)); err == nil {
		result = requeueBefore(requeueBefore(result, vanished), again)
	}
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

// reconcile takes the object through the phases: observe, cause, plan, invoke, commit, schedule.
func (e *Engine) reconcile(ctx context.Context, key types.NamespacedName) (none reconcile.Result, err error) {
	r, err := e.observe(ctx, key)
	e.noteObject(key, r)
	if r == nil || err != nil {
		return none, err
	}
	defer r.unlock()
	if e.Shard != nil && e.Shard.Leaves(r.Base()) {
		return none, nil // the informer will deliver this state, and the engine then releases the object
	}
	ctx = log.IntoContext(ctx, lazylog.New(log.FromContext(ctx)).WithValues("uid", string(r.Base().GetUID())))
	ctx = objectstate.ContextWithMemos(ctx, e.states.Memos(r.Base().GetUID()))
	if wait, err := e.awaitFreshCache(ctx, r); wait > 0 || err != nil { // after our own writes
		return requeue(wait), err
	}
	if err := e.evaluate(ctx, r); err != nil {
		return none, err
	}
	if _, annotated := r.Base().GetAnnotations()[PausedAnnotation]; annotated {
		if paused, err := e.holdIfPaused(ctx, r); paused {
			return none, err
		}
	}
	if !r.known.Worker.SeenSinceStart { // shortly after the start of the process
		var wait time.Duration
		if r, wait, err = e.verifyAgainstEpoch(ctx, r); wait > 0 || err != nil {
			return requeue(wait), err
		}
	}
	if e.Shard != nil && e.Shard.Leaves(r.Base()) {
		return none, nil // the object was read from the API server; the informer will deliver this state
	}
	if wait, err := e.ensureFinalizer(ctx, r); wait > 0 || err != nil { // for delete handlers, daemons and timers
		return requeue(wait), err
	}
	if len(r.matching.background) > 0 {
		e.background.Start(ctx, r.Base(), r.matching.background, r.backgroundState(), !r.known.ExistedAtStart)
	}
	guarded := ""
	if r.details.Loops != nil { // handlers have made changes that may cause their own calls
		guarded = e.guardLoops(ctx, r)
	}
	e.selectHandlers(ctx, r)
	if e.retriesOnChange {
		r.noteRelatedChange()
	}
	e.makePlan(ctx, r)
	if e.writesEventChanges {
		e.takeEventChanges(ctx, r)
	}
	if err := e.callHandlers(ctx, r); err != nil {
		return none, err
	}
	if err := e.commit(ctx, r); err != nil {
		return none, err
	}
	result := e.schedule(r)
	if r.details.Loops != nil {
		result = requeueBefore(result, e.releaseLoops(ctx, r, guarded))
	}
	e.expectOwnEvent(r, result)
	return result, nil
}

// callHandlers calls the due handlers: cause handlers, then reconcile handlers, and optional delete handlers of an object without our finalizer.
func (e *Engine) callHandlers(ctx context.Context, r *reconciliation) error {
	if err := e.callCauseHandlers(ctx, r); err != nil {
		return err
	}
	if len(e.ReconcileHandlers.IDs()) > 0 {
		e.callReconcileHandlers(ctx, r)
	}
	if r.Cause.Reason == cause.Free {
		e.callOptionalDelete(ctx, r)
	}
	return nil
}

// commit writes the outcomes of the reconcile. If the cause is over, the write removes the records and stores the baseline.
func (e *Engine) commit(ctx context.Context, r *reconciliation) error {
	r.ReportConditions(ctx)
	if !r.Cause.Reason.HasHandlers() && !r.HasLeftovers() && !r.HasChanges() {
		r.postEvents()
		return nil
	}
	r.EndCalls(r.Cause.Reason == cause.Delete && e.supervisor.Busy(r.Base().GetUID()))
	if r.Cause.Reason == cause.Resume && r.hasNothingToWrite() {
		r.noteHandled()
		r.postEvents()
		return nil
	}
	written, err := r.Write(ctx)
	if err != nil || written == nil {
		return err
	}
	if r.IsFinished() && len(r.matching.selection.Selected) > 0 {
		sum := r.Records.Summary()
		log.FromContext(ctx).Info("Handled", "reason", r.Cause.Reason, "succeeded", sum.Succeeded, "failed", sum.Failed)
	}
	return nil
}

// ReportConditions implements [commit.Host].
func (r *reconciliation) ReportConditions(ctx context.Context) {
	if raised := r.Raised(); !raised.IsEmpty() {
		r.engine.raiseObserved(ctx, r, raised)
	}
	if r.engine.reportsConditions {
		r.engine.reportConditions(ctx, r)
	}
}

// AfterWrite implements [commit.Host].
func (r *reconciliation) AfterWrite(_ context.Context, written commit.AcceptedWrite) {
	r.AfterPart(r.Content(), written)
	if a := r.details.Background; a != nil {
		a.Drop(r.edits...)
	}
	r.edits = nil
	if r.IsFinished() {
		r.noteHandled()
	}
	r.calls.workTime, r.calls.unsaved = 0, false
	r.postEvents()
}

// AfterPart implements [commit.Host].
func (r *reconciliation) AfterPart(before map[string]any, written commit.AcceptedWrite) {
	e := r.engine
	if a := r.details.Background; a != nil && len(written.Changes) > 0 {
		after := e.detector.Essence.Build(written.Changes.Apply(before))
		a.NoteWorkerWrite(essence.DigestOf(r.Cause.Live), essence.DigestOf(after), written.Version)
	}
	if e.handlesOwnChanges && written.Stored != nil {
		e.noteOwnChanges(r, before, written.Stored, written.Version, written.Patches...)
	}
}

// Deleted implements [commit.Host].
func (r *reconciliation) Deleted() { r.postEvents() }

// postEvents posts the Events about the attempts since the last write.
func (r *reconciliation) postEvents() {
	events := r.engine.events
	for _, a := range r.report.attempts[r.report.posted:] {
		if st := a.reconciles; st != nil {
			st.failed = events.PostTransition(r.Base(), a.ID, st.failed, a.Before, a.Outcome)
		} else {
			events.PostOutcome(r.Base(), a.ID, a.Before, a.Outcome)
		}
	}
	r.report.posted = len(r.report.attempts)
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
