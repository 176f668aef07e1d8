package engine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newLayers returns the layers that the kind needs, outermost first. The order matters: even during a pause, objects out of scope are
// released and event handlers are called.
func (e *Engine) newLayers() (list []layer) {
	if e.Scope != nil || e.Shard != nil {
		list = append(list, layer{e.holdScope, e.withScope})
	}
	if len(e.EventHandlers.IDs()) > 0 {
		list = append(list, layer{nil, e.withEventHandlers})
	}
	if e.Pause != nil {
		list = append(list, layer{e.holdPause, e.withPause})
	}
	return append(list, layer{nil, e.withDeletions})
}

// withScope releases objects that are out of scope or move to a different shard, and holds objects until the caches of their namespaces
// have synced.
func (e *Engine) withScope(next reconciler) reconciler {
	return func(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
		switch {
		case !e.inScope(key):
			result, err := e.release(ctx, key)
			return e.requeueErrors(key, result, err)
		case e.deferKey(ctx, key, e.holdWarmup):
			return reconcile.Result{}, nil
		}
		return next(ctx, key)
	}
}

// withEventHandlers calls the handlers of watch events. Their retries have their own delays.
func (e *Engine) withEventHandlers(next reconciler) reconciler {
	return func(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
		again := e.callEventHandlers(ctx, key)
		result, err := next(ctx, key)
		if err == nil {
			result = requeueBefore(result, again)
		}
		return result, err
	}
}

// withPause holds all objects of a namespace while the operator is paused there. They are enqueued when the pause is over.
func (e *Engine) withPause(next reconciler) reconciler {
	return func(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
		if e.deferIfPaused(ctx, key) {
			return reconcile.Result{}, nil
		}
		return next(ctx, key)
	}
}

// withDeletions handles deleted objects of the key. An object that the key has now is a different one.
func (e *Engine) withDeletions(next reconciler) reconciler {
	return func(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
		var again, vanished time.Duration
		if e.states.HasLeft(key) || len(e.gone.tombstones.Get(key)) > 0 {
			vanished = e.handleDeleted(ctx, key)
		}
		if last := e.gone.lastCalls.Get(key); last != nil {
			again = e.callAfterDeletion(ctx, key, last)
		}
		result, err := next(ctx, key)
		if result, err = e.requeueErrors(key, result, err); err == nil {
			result = requeueBefore(requeueBefore(result, vanished), again)
		}
		return result, err
	}
}
