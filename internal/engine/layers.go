package engine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newLayers returns the layers that the kind needs, the outermost first. Their order matters: objects out of scope are released during a pause, and event handlers
// are called during a pause.
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

// withScope releases objects that are out of scope or leave the shard, and holds those of namespaces that are not warm.
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

// withEventHandlers calls the handlers of watch events, whose attempts have delays of their own.
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

// withPause holds all objects of the namespace while the operator is paused. The end of the pause enqueues them.
func (e *Engine) withPause(next reconciler) reconciler {
	return func(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
		if e.deferIfPaused(ctx, key) {
			return reconcile.Result{}, nil
		}
		return next(ctx, key)
	}
}

// withDeletions handles objects of the key that no longer exist. The present object of the key is another one.
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
