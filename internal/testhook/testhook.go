package testhook

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
)

// BindCall sets the values of a request that the engine would set in an operator. FinishCall copies the result that the handler has set in the request to the
// call, and returns the outcome of the handler as an error. Package kopf sets both variables.
var (
	BindCall   func(request any, call *invoke.Request)
	FinishCall func(request any, err error) error
)

// An Observer is called for the handler calls and the reconciles of an operator. Its methods must be safe for concurrent use.
type Observer interface {
	// HandlerStarting is called before each call of a handler. It must not change the object of the call. When the handler returns, the
	// returned function is called with its error.
	HandlerStarting(ctx context.Context, call *invoke.Request) (ended func(err error))
	// OperatorStarting is called with the number of kinds that the operator handles, before the first WrapReconciler. If the operator discovers
	// kinds, the first discovery counts as one more kind.
	OperatorStarting(kinds int)
	// KindsChanged is called when the announced number of kinds changes: by +1 when a kind starts, and by -1 when it ends and after the first discovery.
	KindsChanged(change int)
	// EngineEnded is called when an operator has ended an engine and continues to run.
	EngineEnded(e *engine.Engine)
	// ChecksRights reports whether operators ask the API server for their permissions.
	ChecksRights() bool
	// ChangeCacheOptions is called before an operator creates a cache of its own.
	ChangeCacheOptions(options *cache.Options)
	// WrapReconciler is called once for each engine. The returned reconciler is used in place of next.
	WrapReconciler(e *engine.Engine, next reconcile.Reconciler) reconcile.Reconciler
}

type observerKey struct{}

// WithObserver returns a context with an observer. Operators that are started with the context call the observer.
func WithObserver(ctx context.Context, observer Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, observer)
}

// HandlerStarting calls the observer of the context and returns its result. If the context has no observer, it returns nil.
func HandlerStarting(ctx context.Context, call *invoke.Request) (ended func(err error)) {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		return observer.HandlerStarting(ctx, call)
	}
	return nil
}

// OperatorStarting calls the observer of the context. If the context has no observer, it does nothing.
func OperatorStarting(ctx context.Context, kinds int) {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		observer.OperatorStarting(kinds)
	}
}

// KindsChanged calls the observer of the context. If the context has no observer, it does nothing.
func KindsChanged(ctx context.Context, change int) {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		observer.KindsChanged(change)
	}
}

// EnginesEnded calls the observer of the context. If the context has no observer, it does nothing.
func EnginesEnded(ctx context.Context, engines []*engine.Engine) {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		for _, e := range engines {
			observer.EngineEnded(e)
		}
	}
}

// ChecksRights calls the observer of the context. If the context has no observer, it returns true.
func ChecksRights(ctx context.Context) bool {
	observer, ok := ctx.Value(observerKey{}).(Observer)
	return !ok || observer.ChecksRights()
}

// ChangeCacheOptions calls the observer of the context. If the context has no observer, it does nothing.
func ChangeCacheOptions(ctx context.Context, options *cache.Options) {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		observer.ChangeCacheOptions(options)
	}
}

type wallClockKey struct{}

// WithWallClock returns a context with a wall clock. Operators that are started with the context use this clock to detect that the machine was suspended,
// and for the Leases of shards.
func WithWallClock(ctx context.Context, now func() time.Time) context.Context {
	return context.WithValue(ctx, wallClockKey{}, now)
}

// WallClockOrNil returns the wall clock of the context, or nil if the context has none. The operator then uses the clock of the machine.
func WallClockOrNil(ctx context.Context) func() time.Time {
	now, _ := ctx.Value(wallClockKey{}).(func() time.Time)
	return now
}

// WrapReconciler returns the reconciler of the observer of the context, or next if there is none.
func WrapReconciler(ctx context.Context, e *engine.Engine, next reconcile.Reconciler) reconcile.Reconciler {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		return observer.WrapReconciler(e, next)
	}
	return next
}
