package invoke

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// AttemptInfo describes an attempt to a hook.
type AttemptInfo struct {
	Kind    schema.GroupVersionKind
	Object  types.NamespacedName
	UID     types.UID
	Handler string
	Reason  string
	Attempt progress.Attempt
	// CycleStarted is the time when the cycle began; zero for handlers without a cycle.
	CycleStarted time.Time
}

// AttemptHook is called before each attempt. The attempt uses the returned context, and calls the returned function with its outcome. Both results may be
// nil.
type AttemptHook func(ctx context.Context, a AttemptInfo) (context.Context, func(progress.Outcome))

// Hooks are the hooks of an operator for the objects of one kind.
type Hooks struct {
	Kind schema.GroupVersionKind
	Each []AttemptHook
}

// exited is the outcome that hooks receive if an attempt neither returns nor panics.
var exited = progress.Outcome{Err: errors.New("attempt ended its goroutine without returning"), Attempted: true}

// Begin calls the hooks before an attempt for an object. The caller must use the returned context for the attempt and for its sub-handlers, and must call
// end with the outcome. Only the first call of end has an effect.
func (h *Hooks) Begin(ctx context.Context, obj client.Object, info AttemptInfo) (attemptCtx context.Context, end func(progress.Outcome)) {
	if h == nil || len(h.Each) == 0 {
		return ctx, func(progress.Outcome) {}
	}
	info.Kind, info.Object, info.UID = h.Kind, client.ObjectKeyFromObject(obj), obj.GetUID()
	info.CycleStarted = info.CycleStarted.UTC().Truncate(time.Microsecond) // the precision of stored records
	var ends []func(progress.Outcome)
	for _, hook := range h.Each {
		changed, ended := hook(ctx, info)
		if changed != nil {
			ctx = changed
		}
		if ended != nil {
			ends = append(ends, ended)
		}
	}
	return ctx, func(outcome progress.Outcome) {
		called := ends
		ends = nil
		for _, ended := range called {
			defer ended(outcome) // the last one first, and all of them even if one panics
		}
	}
}
