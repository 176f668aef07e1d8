package engine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/registry"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A Kind is one resource with its handlers, as the facade declares it.
type Kind struct {
	Name     string // of the controller: in logs and metrics
	GVK      schema.GroupVersionKind
	New      func() client.Object
	Handlers registry.Registry[Handler]
	// Results is the path of fields under which results are kept, by the ids of their handlers.
	Results []string
	// HasStatus: the kind has the status subresource.
	HasStatus bool
}

// A Handler is one function with what it wants to be called for.
type Handler struct {
	match.Criteria
	Policy progress.Policy
	Do     func(ctx context.Context, call *Call) error
}

// A Call is what a handler is told; the facade makes a typed request of it.
type Call struct {
	Object client.Object
	// Old is the object as it was last handled; nil if it never was.
	Old     client.Object
	Diff    diff.Diff
	Reason  string
	Attempt progress.Attempt
	// Result is set by the handler; nil: none.
	Result any
}

// Settings are those of the operator, the same for all its kinds.
type Settings struct {
	Client client.Client
	Cache  client.Reader
	Live   client.Reader

	Store      progress.Store
	Baseline   progress.Baseline
	Finalizer  string
	Lifecycle  progress.Lifecycle
	Checkpoint time.Duration
}
