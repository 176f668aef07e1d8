package testhook

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
)

// BindCall fills in what the engine would set on a request in an operator. FinishCall copies the result that the handler has set on the
// request to the call, and returns the handler's outcome as an error. Package kopf sets both variables.
var (
	BindCall   func(request any, call *invoke.Request)
	FinishCall func(request any, err error) error
)

// An Observer watches an operator's handler calls and reconciles. Its methods must be safe for concurrent use.
type Observer interface {
	// HandlerStarting is called before each call of a handler. It must not change the call's object. The function it returns is called with
	// the handler's error once the handler has returned.
	HandlerStarting(ctx context.Context, call *invoke.Request) (ended func(err error))
	// OperatorStarting is called with the number of kinds that the operator handles, before the first WrapReconciler. If the operator
	// discovers kinds, it counts one more for the first discovery.
	OperatorStarting(kinds int)
	// KindsChanged is called when the announced number of kinds changes: with +1 when a kind starts, and with -1 when one stops or the
	// first discovery is done.
	KindsChanged(change int)
	// EngineEnded is called when an operator has stopped one engine but keeps running.
	EngineEnded(e *engine.Engine)
	// ChecksRights reports whether operators ask the API server for their permissions.
	ChecksRights() bool
	// ChangeCacheOptions is called before an operator creates its own cache.
	ChangeCacheOptions(options *cache.Options)
	// WrapReconciler is called once for each engine. The reconciler it returns replaces next.
	WrapReconciler(e *engine.Engine, next reconcile.Reconciler) reconcile.Reconciler
}

type observerKey struct{}

// WithObserver returns a context with an observer for the operators started with that context.
func WithObserver(ctx context.Context, observer Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, observer)
}

// HandlerStarting calls the context's observer and returns its result. It returns nil without an observer.
func HandlerStarting(ctx context.Context, call *invoke.Request) (ended func(err error)) {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		return observer.HandlerStarting(ctx, call)
	}
	return nil
}

// OperatorStarting calls the context's observer, if it has one.
func OperatorStarting(ctx context.Context, kinds int) {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		observer.OperatorStarting(kinds)
	}
}

// KindsChanged calls the context's observer, if it has one.
func KindsChanged(ctx context.Context, change int) {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		observer.KindsChanged(change)
	}
}

// EnginesEnded calls the context's observer for each engine, if it has one.
func EnginesEnded(ctx context.Context, engines []*engine.Engine) {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		for _, e := range engines {
			observer.EngineEnded(e)
		}
	}
}

// ChecksRights asks the context's observer. It returns true without one.
func ChecksRights(ctx context.Context) bool {
	observer, ok := ctx.Value(observerKey{}).(Observer)
	return !ok || observer.ChecksRights()
}

// ChangeCacheOptions calls the context's observer, if it has one.
func ChangeCacheOptions(ctx context.Context, options *cache.Options) {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		observer.ChangeCacheOptions(options)
	}
}

type wallClockKey struct{}

// WithWallClock returns a context with a wall clock. Operators started with that context use it for shard Leases, and to notice that the
// machine was suspended.
func WithWallClock(ctx context.Context, now func() time.Time) context.Context {
	return context.WithValue(ctx, wallClockKey{}, now)
}

// WallClockOrNil returns the context's wall clock, or nil if it has none. The operator then uses the machine's clock.
func WallClockOrNil(ctx context.Context) func() time.Time {
	now, _ := ctx.Value(wallClockKey{}).(func() time.Time)
	return now
}

// WrapReconciler returns the reconciler as wrapped by the context's observer, or next without an observer.
func WrapReconciler(ctx context.Context, e *engine.Engine, next reconcile.Reconciler) reconcile.Reconciler {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		return observer.WrapReconciler(e, next)
	}
	return next
}
