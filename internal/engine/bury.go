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
func (e *Engine) bury(ctx context.Context, key types.NamespacedName) (wait time.Duration) {
	for _, last := range e.states.TakeDeleted(key) {
		t := &tombstone{memory: e.states.GetOrCreate(last.GetUID()), memos: e.states.Memos(last.GetUID())}
		e.states.Forget(last.GetUID())
		e.supervisor.Forget(last.GetUID()) // it may have been started since it was lost
		t.last = last.DeepCopyObject().(client.Object)
		e.identify(t.last)
		if e.isVanished(t) {
			e.tombstones.add(key, t)
		} else {
			e.release(ctx, t)
		}
	}
	return e.handleVanished(ctx, key)
}

// release calls the optional delete handlers for an object that our finalizer did not hold until its end.
func (e *Engine) release(ctx context.Context, t *tombstone) {
	c, ctx, err := e.cycleOf(ctx, t)
	if err != nil {
		return // it could not be handled either
	}
	e.farewell(ctx, c)
	e.tidy(ctx, c)
	e.quota.Forget(t.last.GetUID())
}

// tidy removes what we have left on an object that the cache has lost although it exists: if the watch is
// restricted to labels which the object has lost, this is the only time we hear of that (FIN-04).
func (e *Engine) tidy(ctx context.Context, lost *cycle) {
	_, delayed := lost.state.StaleAfter(now())
	if !lost.state.HasStale(now()) && !delayed && e.Pin.Fetch(lost.before) == nil {
		return
	}
	suspensions := e.suspensions()
	obj, err := e.read(ctx, e.Live, client.ObjectKeyFromObject(lost.before))
	if obj == nil || err != nil || obj.GetUID() != lost.before.GetUID() {
		return
	}
	c := &cycle{memory: &objectState{}, parting: true, suspensions: suspensions}
	if err := c.begin(obj); err != nil {
		return
	}
	e.detect(ctx, c)
	if e.filter(ctx, c); len(c.matching) > 0 {
		return // it comes back
	}
	if err := e.finish(ctx, c); err != nil {
		log.FromContext(ctx).Info("Failed to remove annotations from unmatched object", "error", err.Error())
	}
}

// farewell calls the optional delete handlers for an object that is being deleted without having
// waited for us: once, as well as it goes, with the last state that was seen (B-25). Deletions that
// were under way before the operator started are none that it has seen.
func (e *Engine) farewell(ctx context.Context, c *cycle) {
	ids := slices.DeleteFunc(slices.Clone(c.matching), func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return !handler.IsOptionalDelete()
	})
	if len(ids) == 0 || c.memory.Worker.OptionalDeleteCalled || !c.memory.Worker.SeenAlive || c.gone && e.lives(ctx, c) {
		return
	}
	c.memory.Worker.OptionalDeleteCalled = true
	c.cause.Reason = cause.Delete
	for _, id := range ids {
		log.FromContext(ctx).V(1).Info("The object goes without waiting for us; calling an optional handler", "handler", id)
		handler, _ := e.Handlers.Get(id)
		invoke.HandlerAttempt{Kind: e.Name, ID: id, Handler: handler, View: e.causeView(c), Record: progress.Record{Started: now()}, Once: true}.Run(ctx)
	}
}

// lives checks whether an object that the cache has lost is only out of the cache's sight: it may be
// restricted to labels that the object has lost.
func (e *Engine) lives(ctx context.Context, c *cycle) bool {
	if c.cause.Facts.Deleting {
		return false
	}
	exists, err := e.exists(ctx, c.before)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to check whether the object is deleted; the optional delete handlers are not called")
		return true
	}
	return exists
}

// exists asks the API server whether an object exists.
func (e *Engine) exists(ctx context.Context, obj client.Object) (bool, error) {
	live, err := e.read(ctx, e.Live, client.ObjectKeyFromObject(obj))
	return live != nil && live.GetUID() == obj.GetUID(), err
}
