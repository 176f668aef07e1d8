package engine

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
)

// observe returns a reconciliation of the object as the cache has it, or nil if there is no object or nothing to do. If it returns one, it
// has locked the object's state, which the caller must unlock at the end of the reconcile.
func (e *Engine) observe(ctx context.Context, key types.NamespacedName) (*reconciliation, error) {
	suspensions, afterEpoch := e.committer.SuspensionCount(), e.epoch.IsPassed(key.Namespace)
	obj, err := e.observedObject(ctx, key)
	if err != nil {
		return nil, err
	}
	if obj == nil {
		return nil, nil
	}
	known := e.states.GetOrCreate(obj.GetUID())
	known.Lock()
	r := e.newReconciliation(known)
	r.session.Pauses, r.session.Suspensions, r.afterEpoch = e.pause.count.Load(), suspensions, afterEpoch
	ready := false // even if the conversion panics
	defer func() {
		if !ready {
			r.unlock()
		}
	}()
	r.known.Worker.PausesAtReconcile = r.session.Pauses
	if e.takeOwnEvent(r, obj) {
		return nil, nil
	}
	if err := r.draft.SetBase(obj); err != nil {
		return nil, err
	}
	ready = true
	return r, nil
}

// observedObject returns the object that the informer has delivered last. The result shares its fields with the cache, so they must not be
// changed. The cache has each state before the informer delivers it. So if the object was not delivered yet, or only in a state older than
// the epoch, observedObject takes it from the cache, again without a copy.
func (e *Engine) observedObject(ctx context.Context, key types.NamespacedName) (client.Object, error) {
	shared := e.states.Observed(key)
	if shared != nil && e.epoch.IsOlder(shared) {
		shared = e.epoch.Stored(key)
	}
	if shared == nil {
		return e.readObject(ctx, e.Cache, key, client.UnsafeDisableDeepCopy)
	}
	if _, untyped := shared.(*unstructured.Unstructured); untyped {
		return shared, nil
	}
	obj := patch.ShallowCopy(shared)
	e.identify(obj)
	return obj, nil
}

// awaitFreshCache makes sure that the object isn't older than our own last write, because finished handlers would look unfinished in an
// older state. If the cache lags behind, no worker waits: the object is reconciled again when the cache changes. After the consistency
// timeout, the object is read from the API server.
func (e *Engine) awaitFreshCache(ctx context.Context, r *reconciliation) (Hold, error) {
	if r.details.Memory.FoundDeleted {
		return holdFor(HeldByCache, e.ConsistencyTimeout), nil // the cache will show the deletion
	}
	if pending := r.details.Pending; pending != nil {
		wait, err := e.retryPendingWrite(ctx, r, pending)
		if r.details.Pending == nil { // only the cache lags behind
			return holdFor(HeldByCache, wait), err
		}
		return holdFor(HeldByWrite, wait), err
	}
	wait, err := e.checkCacheIsCurrent(ctx, r)
	return holdFor(HeldByCache, wait), err
}

func (e *Engine) checkFreshness(s subject) Hold {
	switch details := s.known.Worker.Details; {
	case details != nil && details.Memory.FoundDeleted:
		return Hold{Reason: HeldByCache, Message: "the object is deleted, and the cache does not show that yet"}
	case details != nil && details.Pending != nil:
		return Hold{Reason: HeldByWrite, Message: "the outcomes of the last reconcile are not written yet"}
	case e.isStale(s.obj, s.known):
		return Hold{Reason: HeldByCache, Message: "the cache does not show the last write of the operator yet"}
	}
	return Hold{}
}

func (e *Engine) checkCacheIsCurrent(ctx context.Context, r *reconciliation) (time.Duration, error) {
	if !e.isStale(r.draft.Base(), r.known) {
		e.stopAwaiting(r.known, client.ObjectKeyFromObject(r.draft.Base()))
		return 0, nil
	}
	if left := time.Until(r.known.AwaitDeadline()); left > 0 {
		metrics.OwnWriteWaits.WithLabelValues(e.Name).Inc()
		return left, nil
	}
	metrics.StaleCacheReads.WithLabelValues(e.Name).Inc()
	log.FromContext(ctx).Info("The cache does not show our last write; reading the object from the API server")
	obj, err := e.readLive(ctx, client.ObjectKeyFromObject(r.draft.Base()))
	if err != nil {
		return 0, err
	}
	if obj == nil || obj.GetUID() != r.draft.Base().GetUID() {
		return e.ConsistencyTimeout, nil // the object is deleted; the cache will show that
	}
	if version := obj.GetResourceVersion(); isOrdered(version) {
		r.known.SetAwaitedVersion(version, e.ConsistencyTimeout) // the cache may show older states until it has passed this version
	} else {
		r.known.StopAwaiting() // we don't know when the cache has passed this version
	}
	return 0, r.draft.SetBase(obj)
}

// isStale reports whether the object lacks our last write.
func (e *Engine) isStale(obj client.Object, known *objectState) bool {
	if details := known.Worker.Details; details != nil && details.Memory.FinalizerRemoved && e.hasFinalizer(obj) {
		return true // removing the last finalizer doesn't change the resource version
	}
	awaited := known.AwaitedVersion()
	return awaited != "" && objectstate.IsOlderVersion(obj.GetResourceVersion(), awaited)
}

func isOrdered(version string) bool {
	_, err := resourceversion.CompareResourceVersion(version, version)
	return err == nil
}

// takeOwnEvent reports whether this reconcile was caused only by the write that completed a cycle. There is nothing to do for such an
// event, see [Engine.expectOwnEvent]. It is skipped only once, so any later reconcile handles the object again.
func (e *Engine) takeOwnEvent(r *reconciliation, obj client.Object) bool {
	settled := r.details.Settled
	r.details.Settled = false
	if !settled || r.known.AwaitedVersion() != obj.GetResourceVersion() || r.details.Pending != nil || r.details.Memory.Overlay != nil {
		return false
	}
	e.stopAwaiting(r.known, client.ObjectKeyFromObject(obj))
	return true
}

// stopAwaiting is called when the object contains our last write. It forgets the awaited version if the informer has delivered the write,
// too. Otherwise the object came from the cache, see [Engine.observedObject], and the informer may still deliver older states.
func (e *Engine) stopAwaiting(m *objectState, key types.NamespacedName) {
	if m.AwaitedVersion() == "" {
		return
	}
	if delivered := e.states.Observed(key); delivered != nil && !objectstate.IsOlderVersion(delivered.GetResourceVersion(), m.AwaitedVersion()) {
		m.StopAwaiting()
	}
}

// expectOwnEvent is called at the end of a reconcile. If that has completed a cycle and the next one would find nothing to do,
// expectOwnEvent lets the engine skip the event of the write.
func (e *Engine) expectOwnEvent(r *reconciliation) {
	m := r.known
	if !r.session.IsFinished() || r.result != (reconcile.Result{}) || m.AwaitedVersion() != r.draft.Base().GetResourceVersion() || r.session.ReportRejected || r.details.Memory.Overlay != nil ||
		len(e.ReconcileHandlers.IDs())+len(e.BackgroundHandlers.IDs()) > 0 || e.traits.writesEventChanges {
		return
	}
	if r.known.ExistedAtStart && !r.known.Worker.Handled {
		return // resume handlers are due
	}
	if r.session.Cause.OutdatedBaseline || r.session.Cause.StalePin || e.Pin.Fetch(r.draft.Base()) != nil || e.retries.HasWork(r.draft.Base()) {
		return // the next reconcile must remove or store something; the write has removed all records
	}
	if r.hasDueRevision() {
		return
	}
	// Other clients may have changed the object between the read and the write.
	stored := e.Baseline.Fetch(r.draft.Base())
	if r.draft.Base().GetDeletionTimestamp() != nil || e.hasFinalizer(r.draft.Base()) != r.session.Cause.Facts.HasFinalizer ||
		stored == nil || r.details.Memory.Baselines.BaselineReplaced(stored) {
		return
	}
	// Filters decide on the finalizer, and handlers may have changed fields that the filters depend on.
	after := match.Input{Object: r.draft.Content(), HasCause: true, Old: r.session.Cause.Live, New: r.session.Cause.Live}
	for id, handler := range e.Handlers.All() {
		if len(handler.When) > 0 {
			return // the result of a function may change at any time
		}
		if plan.MatchObject(logr.Discard(), id, handler, nil, after).Accepts() != slices.Contains(r.matching.handlers, id) {
			return
		}
	}
	r.details.Settled = true
}

// retryPendingWrite writes the outcomes of an earlier reconcile whose write failed, without calling its handlers again. It drops the
// pending write if the object is being deleted by now, or if another client has changed the same fields or the progress during a pause.
func (e *Engine) retryPendingWrite(ctx context.Context, r *reconciliation, pending *reconciliation) (time.Duration, error) {
	if r.draft.Base().GetDeletionTimestamp() != nil && pending.session.Cause.Reason != cause.Delete {
		r.details.Pending = nil
		return e.checkCacheIsCurrent(ctx, r)
	}
	live, err := pending.session.OvertakenBy(ctx, r.session.Suspensions)
	switch {
	case err != nil:
		return 0, err
	case live != nil: // the reconcile continues with the object as it is, as after a crash
		r.details.Pending = nil
		if pending.session.IsFinished() { // resume handlers were called in any case
			r.noteHandled()
		}
		r.known.SetAwaitedVersion(live.GetResourceVersion(), e.ConsistencyTimeout)
		return 0, r.draft.SetBase(live)
	}
	if written, err := pending.write(ctx); err != nil || written == nil {
		return e.ConsistencyTimeout, err // the object is deleted; the cache will show that
	}
	log.FromContext(ctx).Info("Wrote the pending changes of an earlier reconcile")
	return e.checkCacheIsCurrent(ctx, r)
}

// verifyEpoch makes sure that the engine neither calls handlers nor writes because of a state from before this process started, since an
// earlier process may have stored progress after that. If there is something to do for such a state, the object is read from the API
// server, and the reconcile continues with what was read.
func (e *Engine) verifyEpoch(ctx context.Context, r *reconciliation) (Hold, error) {
	m := r.known
	if m.Worker.SeenSinceStart {
		return Hold{}, nil
	}
	if m.Worker.SeenSinceStart = r.afterEpoch || !e.epoch.IsOlder(r.draft.Base()); m.Worker.SeenSinceStart || !e.hasWork(r) {
		return Hold{}, nil
	}
	log.FromContext(ctx).V(1).Info("The cache may be older than the start of the operator; reading the object from the API server")
	r.session.Pauses, r.session.Suspensions = e.pause.count.Load(), e.committer.SuspensionCount()
	live, err := e.readLive(ctx, client.ObjectKeyFromObject(r.draft.Base()))
	if err != nil {
		return Hold{}, err
	}
	if live == nil || live.GetUID() != r.draft.Base().GetUID() {
		r.details.Memory.FoundDeleted = true
		return holdFor(HeldByEpoch, e.ConsistencyTimeout), nil // the cache will show the deletion
	}
	m.Worker.SeenSinceStart = true
	if live.GetResourceVersion() == r.draft.Base().GetResourceVersion() {
		return Hold{}, nil
	}
	m.SetAwaitedVersion(live.GetResourceVersion(), e.ConsistencyTimeout)
	e.states.UpdateUnlessOlder(live)
	again := e.newReconciliation(m)
	again.session.Pauses, again.session.Suspensions = r.session.Pauses, r.session.Suspensions
	*r = *again
	if err := r.draft.SetBase(live); err != nil {
		return Hold{}, err
	}
	return e.detectCause(ctx, r)
}

// hasWork reports whether the reconcile may call handlers, start daemons or timers, or write something. Event handlers don't count, because
// they are called for whatever the watch delivers.
func (e *Engine) hasWork(r *reconciliation) bool {
	if e.finalizerAction(r) != cause.KeepFinalizer || !r.hasNothingToWrite() || e.retries.HasWork(r.draft.Base()) ||
		e.background.runner.NeedsStart(r.draft.Base().GetUID(), r.matching.background) || e.mayReconcile(r) {
		return true
	}
	if r.session.Cause.Reason != cause.Resume {
		return r.session.Cause.Reason.HasHandlers()
	}
	return slices.ContainsFunc(r.matching.handlers, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return handler.AnyReason || slices.Contains(handler.Reasons, string(cause.Resume))
	})
}

// mayReconcile reports whether a reconcile handler may be called for the object.
func (e *Engine) mayReconcile(r *reconciliation) bool {
	return slices.ContainsFunc(e.ReconcileHandlers.IDs(), func(id string) bool {
		handler, _ := e.ReconcileHandlers.Get(id)
		hasEvents := handler.ClusterEvents == "" || len(e.others.clusterEvents.Get(handlerKey{r.draft.Base().GetUID(), id})) > 0
		return hasEvents && plan.MatchObject(logr.Discard(), id, handler, r.matching.view, match.Input{Object: r.draft.Content()}).Accepts()
	})
}
