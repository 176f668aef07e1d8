package engine

import (
	"context"
	"slices"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/epoch"
)

// StartFrom sets the epoch. The engine then trusts a state of an object only if the state is not older than the version,
// or if the cache has reached the version. With an empty version, it trusts no state. store returns the store of the cache for a namespace, or nil if it is
// unknown. StartFrom must be called before the informer delivers the first object. Without it, the engine trusts every state.
func (e *Engine) StartFrom(version string, store func(namespace string) toolscache.Store) {
	e.epoch = &epoch.Epoch{Version: version, Store: store, Scoped: e.Scope != nil, Reader: e.APIReader, GVK: e.GVK, States: e.states}
}

// AwaitEpoch calls [epoch.Epoch.Await].
func (e *Engine) AwaitEpoch(ctx context.Context, namespaces ...string) error {
	return e.epoch.Await(ctx, namespaces...)
}

// VerifyCache calls [epoch.Epoch.Verify].
func (e *Engine) VerifyCache(ctx context.Context, delivered <-chan struct{}, namespaces ...string) error {
	return e.epoch.Verify(ctx, delivered, namespaces...)
}

// verifyAgainstEpoch ensures that the engine does not call handlers or write because of a state that is older than the start of the process: an
// earlier process may have stored progress since. If there is something to do for such a state, verifyAgainstEpoch reads the object from the API server,
// and returns a reconciliation of that state. It also returns the time to wait; 0 to continue.
func (e *Engine) verifyAgainstEpoch(ctx context.Context, r *reconciliation) (*reconciliation, time.Duration, error) {
	m := r.known
	if m.Worker.SeenSinceStart = r.afterEpoch || !e.epoch.IsOlder(r.Base()); m.Worker.SeenSinceStart || !e.hasWork(r) {
		return r, 0, nil
	}
	log.FromContext(ctx).V(1).Info("The cache may be older than the start of the operator; reading the object from the API server")
	r.Pauses, r.Suspensions = e.pauses.Load(), e.committer.SuspensionCount()
	live, err := e.readLive(ctx, client.ObjectKeyFromObject(r.Base()))
	if err != nil {
		return r, 0, err
	}
	if live == nil || live.GetUID() != r.Base().GetUID() {
		r.Memory.FoundDeleted = true
		return r, e.ConsistencyTimeout, nil // the cache will show the deletion
	}
	m.Worker.SeenSinceStart = true
	if live.GetResourceVersion() == r.Base().GetResourceVersion() {
		return r, 0, nil
	}
	m.SetAwaitedVersion(live.GetResourceVersion(), e.ConsistencyTimeout)
	e.states.UpdateUnlessOlder(live)
	again := e.newReconciliation(m)
	again.Pauses, again.Suspensions = r.Pauses, r.Suspensions
	if err := again.SetBase(live); err != nil {
		return again, 0, err
	}
	return again, 0, e.evaluate(ctx, again)
}

// hasWork reports whether the reconcile may call handlers that have records, or write something.
func (e *Engine) hasWork(r *reconciliation) bool {
	if e.finalizerAction(r) != cause.KeepFinalizer || !r.hasNothingToWrite() {
		return true
	}
	if r.Cause.Reason != cause.Resume {
		return r.Cause.Reason.HasHandlers()
	}
	return slices.ContainsFunc(r.matching.handlers, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return handler.AnyReason || slices.Contains(handler.Reasons, string(cause.Resume))
	})
}
