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

// AttemptInfo describes an attempt of a handler to the function of [WithAttemptHook].
type AttemptInfo struct {
	// Kind is the kind of the object.
	Kind schema.GroupVersionKind
	// Object is the namespace and the name of the object.
	Object types.NamespacedName
	// UID is the uid of the object.
	UID types.UID
	// Handler is the id of the handler.
	Handler string
	// Reason is the Reason of the [Request].
	Reason Reason
	// Attempt is the Attempt of the [Request].
	Attempt progress.Attempt
	// CycleStarted is the time when the cycle began, with a precision of one microsecond. It is the same for all attempts of cause handlers and
	// sub-handlers in a cycle, also after a restart of the process. It is zero for other handlers.
	CycleStarted time.Time
}

// WithAttemptHook adds a function that the operator calls before each attempt of each handler, for example for tracing. The handler and its sub-handlers
// receive the context that the hook returns, which must be derived from ctx. With a nil context, they receive ctx. The operator calls the function that the
// hook returns when the attempt and the attempts of its sub-handlers have ended. This function may be nil. If the handler has panicked, the error of the
// outcome is a [progress.PanicError].
//
// The operator calls the hook for all handlers of objects except admission handlers. It also calls the hook if a limit such as [Retries] forbids the
// attempt. Attempted of the outcome is then false. If the API server later rejects the changes of the handler, the outcome does not contain this error.
//
// The hook and the returned function must be safe for concurrent use, and return quickly. If one of them panics, the operator logs the panic, and the attempt
// stays the same. The operator calls several hooks in the order of their registration, and the returned functions in the reverse order. Default: no hook.
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

// callHook calls a hook. A fault of the hook, or of the function that it returns, has no effect on the attempt.
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
