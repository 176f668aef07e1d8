package testhook

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
)

// Attach gives a request what the engine would; Conclude takes from it what the handler has said beside its error, puts
// that into the call, and returns how the handler has ended. Package kopf sets both.
var (
	Attach   func(request any, call *engine.Call)
	Conclude func(request any, err error) error
)

// An Observer learns of what an operator does. Its methods may be called from many goroutines.
type Observer interface {
	// Called is told that a handler is called; what it returns is told how that has ended. The object of
	// the call is not to be changed.
	Called(ctx context.Context, call *engine.Call) (ended func(err error))
	// Begins is told of how many kinds an operator will handle objects, before Around is told of their engines.
	Begins(kinds int)
	// Around is told of an engine, and may put something around it.
	Around(e *engine.Engine, next reconcile.Reconciler) reconcile.Reconciler
}

type observerKey struct{}

// Observed has an observer learn of all operators that are started with the context.
func Observed(ctx context.Context, observer Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, observer)
}

// Called tells the observer, if there is one; otherwise it returns nil.
func Called(ctx context.Context, call *engine.Call) (ended func(err error)) {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		return observer.Called(ctx, call)
	}
	return nil
}

// Begins tells the observer, if there is one.
func Begins(ctx context.Context, kinds int) {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		observer.Begins(kinds)
	}
}

type wallClockKey struct{}

// WithWallClock has the operators that are started with the context use another wall clock to recognise suspensions.
func WithWallClock(ctx context.Context, now func() time.Time) context.Context {
	return context.WithValue(ctx, wallClockKey{}, now)
}

// WallClock returns the wall clock of an operator; nil: that of the machine.
func WallClock(ctx context.Context) func() time.Time {
	now, _ := ctx.Value(wallClockKey{}).(func() time.Time)
	return now
}

// Around lets the observer put something around an engine, if there is one.
func Around(ctx context.Context, e *engine.Engine, next reconcile.Reconciler) reconcile.Reconciler {
	if observer, ok := ctx.Value(observerKey{}).(Observer); ok {
		return observer.Around(e, next)
	}
	return next
}
