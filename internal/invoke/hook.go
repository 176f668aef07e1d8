package invoke

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

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
