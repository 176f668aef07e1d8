package kopf

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// AttemptInfo is what a [WithAttemptHook] function learns about an attempt.
type AttemptInfo struct {
	// Kind is the object's kind.
	Kind schema.GroupVersionKind
	// Object is the object's namespace and name.
	Object types.NamespacedName
	// UID is the object's uid.
	UID types.UID
	// Handler is the handler's id.
	Handler string
	// Reason is the Reason of the [Request].
	Reason Reason
	// Attempt is the Attempt of the [Request].
	Attempt progress.Attempt
	// CycleStarted is the time when the cycle started, with a precision of one microsecond. It is the same for all attempts of cause
	// handlers and sub-handlers in a cycle, even across restarts. It is zero for other handlers.
	CycleStarted time.Time
}

// WithAttemptHook adds a function that the operator calls before each attempt of each handler, for example for tracing. The handler and its
// sub-handlers get the context that the hook returns, which must be derived from ctx. If it is nil, they get ctx itself. Once the attempt
// and those of its sub-handlers have finished, the operator calls the function that the hook returned, unless it is nil. If the handler has
// panicked, the outcome's error is a [progress.PanicError].
//
// The operator calls the hook for all handlers of objects except admission handlers, even if a limit such as [Retries] forbids the attempt.
// The outcome's Attempted field is then false. The outcome doesn't say whether the API server later rejects the handler's changes.
//
// The hook and the returned function must be safe for concurrent use, and return quickly. If one of them panics, the operator logs the
// panic, and the attempt isn't affected. Several hooks are called in the order in which you added them, and the returned functions in
// reverse order. Default: no hook.
func WithAttemptHook(hook func(ctx context.Context, a AttemptInfo) (context.Context, func(progress.Outcome))) Option {
	return optionFunc(func(o *Operator) {
		if hook == nil {
			o.addError(errors.New("WithAttemptHook(nil): pass a function or remove the option"))
			return
		}
		o.kinds.Settings.AttemptHooks = append(o.kinds.Settings.AttemptHooks, func(ctx context.Context, a invoke.AttemptInfo) (context.Context, func(progress.Outcome)) {
			return callHook(ctx, hook, AttemptInfo{
				Kind: a.Kind, Object: a.Object, UID: a.UID, Handler: a.Handler, Reason: Reason(a.Reason), Attempt: a.Attempt, CycleStarted: a.CycleStarted,
			})
		})
	})
}

// callHook calls a hook. If the hook or the function it returns panics, the attempt isn't affected.
func callHook(
	ctx context.Context, hook func(context.Context, AttemptInfo) (context.Context, func(progress.Outcome)), a AttemptInfo,
) (context.Context, func(progress.Outcome)) {
	var attemptCtx context.Context
	var ended func(progress.Outcome)
	logger := log.FromContext(ctx).WithValues("handler", a.Handler, "object", a.Object)
	if err := guard.Call("WithAttemptHook", func() error { attemptCtx, ended = hook(ctx, a); return nil }); err != nil {
		logger.Error(err, "The function of WithAttemptHook panicked; the attempt is made without it", "stack", guard.Trace(err))
		return nil, nil
	}
	if ended == nil {
		return attemptCtx, nil
	}
	return attemptCtx, func(outcome progress.Outcome) {
		if err := guard.Call("WithAttemptHook", func() error { ended(outcome); return nil }); err != nil {
			logger.Error(err, "The end function of WithAttemptHook panicked; the outcome of the attempt stays the same", "stack", guard.Trace(err))
		}
	}
}
