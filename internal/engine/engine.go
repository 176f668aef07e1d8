package engine

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/inventory"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patching"
)

// An Engine handles the objects of one kind: it is a reconciler, and this file is its table of contents.
type Engine struct {
	Settings
	Kind
	memories *inventory.Inventory
	writer   *patching.Writer
}

// New returns the engine of a kind.
func New(settings Settings, kind Kind) *Engine {
	e := &Engine{Settings: settings, Kind: kind, memories: inventory.New()}
	e.writer = &patching.Writer{
		Client: e.Client, Live: e.Live, New: e.New, HasStatus: e.HasStatus,
		OnConflict: metrics.Conflicts.WithLabelValues(e.Name).Inc,
	}
	return e
}

// Inventory is to be fed by the informer of the kind.
func (e *Engine) Inventory() *inventory.Inventory { return e.memories }

// Reconcile takes one object through one cycle. The request only wakes: what happened is concluded
// from the object, and what is due from its records.
func (e *Engine) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	// The objects of this name that exist no more.
	e.bury(ctx, req.NamespacedName)
	result, err := e.cycle(ctx, req)
	if again, fault := calm(err); again > 0 || fault != nil {
		return reconcile.Result{RequeueAfter: again}, fault
	}
	return result, nil
}

func (e *Engine) cycle(ctx context.Context, req reconcile.Request) (none reconcile.Result, err error) {
	// The object, from the cache.
	c, err := e.load(ctx, req.NamespacedName)
	if c == nil || err != nil {
		return none, err
	}
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("uid", c.before.GetUID()))
	// Not on less than we wrote ourselves.
	if wait, err := e.settle(ctx, c); wait > 0 || err != nil {
		return requeue(wait), err
	}
	// Essence then and now: the cause.
	e.detect(ctx, c)
	// The finalizer, in a pass of its own.
	if wait, err := e.hold(ctx, c); wait > 0 || err != nil {
		return requeue(wait), err
	}
	// The handlers that want to be called, and those of them that are due.
	e.match(ctx, c)
	e.plan(ctx, c)
	// Called in order, recorded, written.
	if err := e.run(ctx, c); err != nil {
		return none, err
	}
	if err := e.finish(ctx, c); err != nil {
		return none, err
	}
	// And when to come back.
	return e.schedule(c), nil
}

// requeue never asks for a wait of zero or less: to controller-runtime that means to forget.
func requeue(after time.Duration) reconcile.Result {
	return reconcile.Result{RequeueAfter: max(after, time.Millisecond)}
}
