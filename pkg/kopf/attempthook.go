package kopf

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

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
	// Reason is the reason of the request.
	Reason Reason
	// Attempt is the attempt of the request.
	Attempt progress.Attempt
	// CycleStarted is the time when the cycle began. All attempts of cause handlers and their sub-handlers in a cycle have the same time, also after a
	// restart of the process. Its precision is a microsecond. It is zero for other handlers.
	CycleStarted time.Time
}

// WithAttemptHook adds a function that the operator calls before each attempt of each handler, for example for tracing. The handler and its sub-handlers
// receive the returned context, which must be derived from ctx. The operator calls the returned function when the attempt and those of its sub-handlers
// have ended. If the handler has panicked, the error of the outcome is a [progress.PanicError]. Both results may be nil.
//
// The hook is called for handlers with objects, except for admission handlers. It is called also if a limit such as [Retries] forbids the attempt; then
// Attempted of the outcome is false. If the API server rejects the changes of the handler later, the outcome does not contain this error.
//
// The hook and the returned function must be safe for concurrent use, return quickly and not panic. With several hooks, the operator calls the first one
// first, and its returned function last. Default: none.
func WithAttemptHook(hook func(ctx context.Context, a AttemptInfo) (context.Context, func(progress.Outcome))) Option {
	return optionFunc(func(o *Operator) {
		if hook == nil {
			o.addError(errors.New("WithAttemptHook(nil): pass a function or remove the option"))
			return
		}
		o.settings.AttemptHooks = append(o.settings.AttemptHooks, func(ctx context.Context, a invoke.AttemptInfo) (context.Context, func(progress.Outcome)) {
			return hook(ctx, AttemptInfo{
				Kind: a.Kind, Object: a.Object, UID: a.UID, Handler: a.Handler, Reason: Reason(a.Reason), Attempt: a.Attempt, CycleStarted: a.CycleStarted,
			})
		})
	})
}
