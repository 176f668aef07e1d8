package engine

import (
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/registry"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Kind is one resource with its handlers.
type Kind struct {
	Name string // the name of the controller in logs and metrics
	GVK  schema.GroupVersionKind
	New  func() client.Object
	// Handlers are the cause handlers.
	Handlers registry.Registry[invoke.Handler]
	// EventHandlers are called for every observed event, ReconcileHandlers after every change. Neither has progress on the object.
	EventHandlers, ReconcileHandlers registry.Registry[invoke.Handler]
	// Indexes are the index handlers. They are called first.
	Indexes registry.Registry[invoke.IndexHandler]
	// BackgroundHandlers are the daemons and timers.
	BackgroundHandlers registry.Registry[*invoke.BackgroundHandler]
	// Fields are additional fields of the essence.
	Fields [][]string
	// Watched are those of Fields whose changes are always updates, also when handlers make them.
	Watched [][]string
	// OwnChanges makes all changes by handlers of this operator updates.
	OwnChanges bool
	// Conditions are the types of conditions whose transitions are updates.
	Conditions []string
	// ConditionOptions locate the conditions. Default: status.conditions.
	ConditionOptions []conditions.Option
	// DeclaredConditions are the types of conditions that each object has from its first reconcile on.
	DeclaredConditions []string
	// Root is the condition that summarizes others; nil if there is none.
	Root *conditions.Root
	// Results is the path of the field that contains the results of handlers, by id.
	Results []string
	// HasStatus is true if the kind has the status subresource.
	HasStatus bool
}

// Settings are the settings of the operator. They are the same for all kinds.
type Settings struct {
	Client    client.Client
	Cache     client.Reader
	APIReader client.Reader
	// Informers returns the informers of the cache, for objects that handlers track. It is optional.
	Informers cache.Informers
	// Log is the logger outside of reconciles.
	Log logr.Logger
	// Pause reports where the operator is paused. It is optional.
	Pause Pauser
	// Fence detects suspensions of the process. It is optional.
	Fence *fencing.Fence
	// Recorder posts Events. If it is nil, the engine posts none.
	Recorder events.EventRecorder
	// AggregatesEvents is true if the recorder counts repeated Events instead of writing each.
	AggregatesEvents bool
	// Events selects the automatic Events.
	Events Events

	Store    progress.Store
	Baseline progress.Baseline
	// Pin stores the essence with which a cycle has begun.
	Pin       progress.Baseline
	Finalizer string
	Lifecycle progress.Lifecycle
	// Checkpoint is the working time of handlers after which the engine writes their outcomes before it calls the next handler.
	Checkpoint time.Duration
}

// conditionOptions returns where the conditions of the kind are stored.
func (e *Kind) conditionOptions() []conditions.Option {
	options := slices.Clone(e.ConditionOptions)
	if !e.HasStatus {
		options = append(options, conditions.WithoutSubresource())
	}
	return options
}
