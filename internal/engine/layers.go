package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A reconciler handles the object of a key.
type reconciler func(ctx context.Context, key types.NamespacedName) (reconcile.Result, error)

// A layer is middleware around the steps of a reconcile. It needs no object, so it also handles keys whose objects no longer exist.
type layer interface {
	// wrap returns the reconciler with the layer around next.
	wrap(next reconciler) reconciler
	// hold returns why the layer would keep the object of a key from the inner layers and the steps. It has no effects.
	hold(key types.NamespacedName) Hold
}

// layers are the layers of a kind.
type layers struct {
	list    []layer    // the outermost first
	wrapped reconciler // the steps within the layers
}

// newLayers returns the layers that the kind needs, the outermost first. Their order matters: objects out of scope are released during a pause, and event handlers
// are called during a pause.
func (e *Engine) newLayers() (list []layer) {
	if e.Scope != nil || e.Shard != nil {
		list = append(list, scopeLayer{e})
	}
	if len(e.EventHandlers.IDs()) > 0 {
		list = append(list, watchEventLayer{e})
	}
	if e.Pause != nil {
		list = append(list, pauseLayer{e})
	}
	return append(list, deletionLayer{e})
}

// wrapAll returns the reconciler within all layers.
func wrapAll(layers []layer, next reconciler) reconciler {
	for _, l := range slices.Backward(layers) {
		next = l.wrap(next)
	}
	return next
}

// scopeLayer releases objects that are out of scope or leave the shard, and holds those of namespaces that are not warm.
type scopeLayer struct{ engine *Engine }

func (l scopeLayer) wrap(next reconciler) reconciler {
	e := l.engine
	return func(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
		switch {
		case !e.inScope(key):
			return e.requeueErrors(key)(e.release(ctx, key))
		case e.deferKey(ctx, key, l.warmup):
			return reconcile.Result{}, nil
		}
		return next(ctx, key)
	}
}

func (l scopeLayer) hold(key types.NamespacedName) Hold {
	switch e := l.engine; {
	case e.isLeaving(key):
		return Hold{Reason: HeldByShard, Message: "the object is being released: the sharder moves it to another shard"}
	case !e.inScope(key):
		return Hold{Reason: HeldByScope, Message: fmt.Sprintf("the operator does not handle the namespace %q: see WithNamespaces", key.Namespace)}
	}
	return l.warmup(key)
}

func (l scopeLayer) warmup(key types.NamespacedName) Hold {
	if e := l.engine; e.Scope == nil || !e.inScope(key) || e.Scope.Admits(key) {
		return Hold{}
	}
	return Hold{Reason: HeldByWarmup, Message: "the caches of the namespace have not synced yet"}
}

// watchEventLayer calls the handlers of watch events, whose attempts have delays of their own.
type watchEventLayer struct{ engine *Engine }

func (l watchEventLayer) wrap(next reconciler) reconciler {
	return func(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
		again := l.engine.callEventHandlers(ctx, key)
		result, err := next(ctx, key)
		if err == nil {
			result = requeueBefore(result, again)
		}
		return result, err
	}
}

func (watchEventLayer) hold(types.NamespacedName) Hold { return Hold{} }

// pauseLayer holds all objects of the namespace while the operator is paused. The end of the pause enqueues them.
type pauseLayer struct{ engine *Engine }

func (l pauseLayer) wrap(next reconciler) reconciler {
	return func(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
		if l.engine.deferIfPaused(ctx, key) {
			return reconcile.Result{}, nil
		}
		return next(ctx, key)
	}
}

func (l pauseLayer) hold(key types.NamespacedName) Hold {
	if paused, why := l.engine.Pause.Paused(key.Namespace); paused {
		return Hold{Reason: HeldByPause, Message: "the operator is paused: " + why}
	}
	return Hold{}
}

// deletionLayer handles objects of the key that no longer exist. The present object of the key is another one.
type deletionLayer struct{ engine *Engine }

func (l deletionLayer) wrap(next reconciler) reconciler {
	e := l.engine
	return func(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
		var again, vanished time.Duration
		if e.states.HasDeleted(key) || len(e.gone.tombstones.Get(key)) > 0 {
			vanished = e.handleDeleted(ctx, key)
		}
		if last := e.gone.lastCalls.Get(key); last != nil {
			again = e.callAfterDeletion(ctx, key, last)
		}
		result, err := e.requeueErrors(key)(next(ctx, key))
		if err == nil {
			result = requeueBefore(requeueBefore(result, vanished), again)
		}
		return result, err
	}
}

func (deletionLayer) hold(types.NamespacedName) Hold { return Hold{} }
