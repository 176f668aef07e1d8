package engine

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/registry"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A Kind is one resource with its handlers, as the facade declares it.
type Kind struct {
	Name string // of the controller: in logs and metrics
	GVK  schema.GroupVersionKind
	New  func() client.Object
	// Handlers are those for what has happened, with progress.
	Handlers registry.Registry[invoke.Handler]
	// Spies see every observed state, Levels what there is. Neither has progress.
	EventHandlers, ReconcileHandlers registry.Registry[invoke.Handler]
	// Indexes learn of every state first.
	Indexes registry.Registry[invoke.IndexHandler]
	// Backgrounds accompany the objects.
	BackgroundHandlers registry.Registry[*invoke.BackgroundHandler]
	// Fields count as essential, wherever they are.
	Fields [][]string
	// Watched are those of Fields whose changes are updates whoever makes them: update handlers react to them.
	Watched [][]string
	// OwnChanges makes updates of all changes of the operator's own handlers.
	OwnChanges bool
	// Conditions are the types whose transitions handlers want to know.
	Conditions []string
	// ConditionOptions say where the conditions are; none: at the usual place.
	ConditionOptions []conditions.Option
	// Declared are the types of conditions that each object has from the first visit on.
	DeclaredConditions []string
	// Root sums up others; nil: none does.
	Root *conditions.Root
	// Results is the path of fields under which results are kept, by the ids of their handlers.
	Results []string
	// HasStatus: the kind has the status subresource.
	HasStatus bool
}

// Settings are those of the operator, the same for all its kinds.
type Settings struct {
	Client    client.Client
	Cache     client.Reader
	APIReader client.Reader
	// Log is for what happens outside of cycles.
	Log logr.Logger
	// Pause says where the operator is paused; nil: nowhere.
	Pause Pauser
	// Fence recognises that the process was suspended; nil: nothing does.
	Fence *fencing.Fence
	// Recorder posts Events; nil: none are posted.
	Recorder events.EventRecorder
	// Counts: the recorder counts the Events that repeat, and does not write each.
	AggregatesEvents bool
	// Events are those that are posted without being asked for.
	Events Events

	Store    progress.Store
	Baseline progress.Baseline
	// Pin is where the essence is kept with which a cycle has begun: beside the baseline.
	Pin        progress.Baseline
	Finalizer  string
	Lifecycle  progress.Lifecycle
	Checkpoint time.Duration
}
