package engine

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// bury takes leave of the objects of a name that do not exist any more. It returns when to come back for those whose delete
// handlers are not done; 0: there are none.
func (e *Engine) handleDeleted(ctx context.Context, key types.NamespacedName) (wait time.Duration) {
	for _, last := range e.states.TakeDeleted(key) {
		t := &tombstone{known: e.states.GetOrCreate(last.GetUID()), memos: e.states.Memos(last.GetUID())}
		e.states.Forget(last.GetUID())
		e.supervisor.Forget(last.GetUID()) // it may have been started since it was lost
		t.last = last.DeepCopyObject().(client.Object)
		e.identify(t.last)
		if e.isVanished(t) {
			e.tombstones.add(key, t)
		} else {
			e.finishDeleted(ctx, t)
		}
	}
	return e.handleVanished(ctx, key)
}

// release calls the optional delete handlers for an object that our finalizer did not hold until its end.
func (e *Engine) finishDeleted(ctx context.Context, t *tombstone) {
	r, ctx, err := e.lastReconciliation(ctx, t)
	if err != nil {
		return // it could not be handled either
	}
	e.callOptionalDelete(ctx, r)
	e.removeStaleAnnotations(ctx, r)
	e.eventLimiter.Forget(t.last.GetUID())
}

// tidy removes what we have left on an object that the cache has lost although it exists: if the watch is
// restricted to labels which the object has lost, this is the only time we hear of that (FIN-04).
func (e *Engine) removeStaleAnnotations(ctx context.Context, lost *reconciliation) {
	_, delayed := lost.state.StaleAfter(now())
	if !lost.state.HasStale(now()) && !delayed && e.Pin.Fetch(lost.before) == nil {
		return
	}
	suspensions := e.suspensions()
	obj, err := e.readObject(ctx, e.APIReader, client.ObjectKeyFromObject(lost.before))
	if obj == nil || err != nil || obj.GetUID() != lost.before.GetUID() {
		return
	}
	r := &reconciliation{known: &objectState{}, leaving: true, suspensions: suspensions}
	if err := r.setBase(obj); err != nil {
		return
	}
	e.detect(ctx, r)
	if e.matchHandlers(ctx, r); len(r.matching) > 0 {
		return // it comes back
	}
	if err := e.finish(ctx, r); err != nil {
		log.FromContext(ctx).Info("Failed to remove annotations from unmatched object", "error", err.Error())
	}
}

// farewell calls the optional delete handlers for an object that is being deleted without having
// waited for us: once, as well as it goes, with the last state that was seen (B-25). Deletions that
// were under way before the operator started are none that it has seen.
func (e *Engine) callOptionalDelete(ctx context.Context, r *reconciliation) {
	ids := slices.DeleteFunc(slices.Clone(r.matching), func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return !handler.IsOptionalDelete()
	})
	if len(ids) == 0 || r.known.Worker.OptionalDeleteCalled || !r.known.Worker.SeenAlive || r.gone && e.stillExists(ctx, r) {
		return
	}
	r.known.Worker.OptionalDeleteCalled = true
	r.cause.Reason = cause.Delete
	for _, id := range ids {
		log.FromContext(ctx).V(1).Info("The object goes without waiting for us; calling an optional handler", "handler", id)
		handler, _ := e.Handlers.Get(id)
		invoke.HandlerAttempt{Kind: e.Name, ID: id, Handler: handler, View: e.causeView(r), Record: progress.Record{Started: now()}, Once: true}.Run(ctx)
	}
}

// lives checks whether an object that the cache has lost is only out of the cache's sight: it may be
// restricted to labels that the object has lost.
func (e *Engine) stillExists(ctx context.Context, r *reconciliation) bool {
	if r.cause.Facts.Deleting {
		return false
	}
	exists, err := e.exists(ctx, r.before)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to check whether the object is deleted; the optional delete handlers are not called")
		return true
	}
	return exists
}

// exists asks the API server whether an object exists.
func (e *Engine) exists(ctx context.Context, obj client.Object) (bool, error) {
	live, err := e.readObject(ctx, e.APIReader, client.ObjectKeyFromObject(obj))
	return live != nil && live.GetUID() == obj.GetUID(), err
}
