package engine

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/execution"
	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/registry"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A Kind is one resource with its handlers, as the facade declares it.
type Kind struct {
	Name string // of the controller: in logs and metrics
	GVK  schema.GroupVersionKind
	New  func() client.Object
	// Handlers are those for what has happened, with progress.
	Handlers registry.Registry[Handler]
	// Spies see every observed state, Levels what there is. Neither has progress.
	Spies, Levels registry.Registry[Handler]
	// Indexes learn of every state first.
	Indexes registry.Registry[Indexed]
	// Backgrounds accompany the objects.
	Backgrounds registry.Registry[*Background]
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
	Declared []string
	// Root sums up others; nil: none does.
	Root *conditions.Root
	// Results is the path of fields under which results are kept, by the ids of their handlers.
	Results []string
	// HasStatus: the kind has the status subresource.
	HasStatus bool
}

// A Handler is one function with what it wants to be called for.
type Handler struct {
	match.Criteria
	// When are tests that the filters cannot express. Each has to pass.
	When []func(*Call) bool
	// Changed, if set, tells whether what has happened is a change for the handler.
	Changed func(*Call) bool
	// After names the handlers that have to succeed first.
	After  []string
	Policy progress.Policy
	// Label stands for the id in metrics, if there may be many ids.
	Label string
	// Interval is how long after a success a level-triggered handler is called again; 0: never.
	Interval time.Duration
	// CancelOnDelete ends the context of an attempt when the object is being deleted.
	CancelOnDelete bool
	// Reports is the type of the condition that says how far the handler is; empty: none does.
	Reports string
	Do      func(ctx context.Context, call *Call) error
	// Hints logs probable mistakes of the handler, and of its sub-handlers; nil: none are logged.
	Hints *execution.Warnings
}

// A Call is what a handler is told; the facade makes a typed request of it.
type Call struct {
	ID     string
	Object client.Object
	// Old is the object as it was last handled; nil if it never was, or is not known.
	Old      client.Object
	OldKnown bool
	Diff     diff.Diff
	// Handled is what the diff leads to, if that is not Object any more.
	Handled client.Object
	// Field is the value of the handler's own field, before and after; nil if it is absent.
	Field   [2]any
	Reason  string
	Event   string
	Attempt progress.Attempt
	// Changes: the handler is one that is told what has changed.
	Changes bool
	// ConditionOptions say where its conditions are.
	ConditionOptions []conditions.Option
	// Flush writes what the handler has changed in the status until now.
	Flush func(ctx context.Context) error
	// Record wraps the client of the handler, to learn of its writes; nil: they are not of interest.
	Record func(client.Client) client.Client
	// Latest returns a copy of the newest known state of the object.
	Latest func() client.Object
	// Notify posts an Event about the object.
	Notify func(eventType, reason, action, note string, args ...any)

	// Result is set by the handler; nil: none.
	Result any
	// Subs are handlers that the handler has declared, to be called when it has returned.
	Subs []Sub
	// Again is set by a level-triggered handler that wants to be called again after a while, all being well.
	Again time.Duration
}

// A Sub is a sub-handler.
type Sub struct {
	ID string // the full one
	Handler
}

// Settings are those of the operator, the same for all its kinds.
type Settings struct {
	Client client.Client
	Cache  client.Reader
	Live   client.Reader
	// Log is for what happens outside of cycles.
	Log logr.Logger
	// Pause says where the operator is paused; nil: nowhere.
	Pause Pauser
	// Fence recognises that the process was suspended; nil: nothing does.
	Fence *fencing.Fence
	// Recorder posts Events; nil: none are posted.
	Recorder events.EventRecorder
	// Counts: the recorder counts the Events that repeat, and does not write each.
	Counts bool
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
