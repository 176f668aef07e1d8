package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/registry"
	"github.com/kopf-runtime/kopf-runtime/internal/shards"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Kind is one resource with its handlers.
type Kind struct {
	Name string // the name of the controller in logs and metrics
	GVK  schema.GroupVersionKind
	New  func() client.Object
	// Handlers are the cause handlers.
	Handlers registry.Registry[*invoke.Handler]
	// EventHandlers are called for every observed event. ReconcileHandlers are called after changes, or for Kubernetes Events. The progress of both is kept
	// in memory only.
	EventHandlers, ReconcileHandlers registry.Registry[*invoke.Handler]
	// Indexes are the index handlers. They are called before all other handlers.
	Indexes registry.Registry[*invoke.IndexHandler]
	// BackgroundHandlers are the daemons and timers.
	BackgroundHandlers registry.Registry[*invoke.BackgroundHandler]
	// Fields are additional fields of the essence.
	Fields [][]string
	// Watched are the elements of Fields whose changes are always updates, also if handlers make them.
	Watched [][]string
	// OwnChanges is true if all changes by handlers of this operator also count as updates.
	OwnChanges bool
	// DigestOnly is true if the objects contain only digests of the last-handled configuration and of the pin.
	DigestOnly bool
	// Conditions are the types of conditions whose transitions are updates.
	Conditions []string
	// ConditionOptions locate the conditions. Default: status.conditions.
	ConditionOptions []conditions.Option
	// DeclaredConditions are the types of conditions that each object has from its first reconcile on.
	DeclaredConditions []string
	// PanicCondition is the type of the condition that reports panics of handlers; empty if there is none.
	PanicCondition string
	// Root is the condition that summarizes other conditions; nil if there is none.
	Root *conditions.Root
	// Results is the path of the field that contains the results of handlers, by id.
	Results []string
	// LoopLimit is the number of updates in a minute that handlers may cause themselves before the engine delays further updates. With 0, the engine delays
	// none.
	LoopLimit int
	// RateLimiter is the rate limiter of the controller, for the backoff of reconcile handlers. It is optional.
	RateLimiter workqueue.TypedRateLimiter[reconcile.Request]
	// CallsUserCode is true if the engine calls methods of users outside of handlers and filters: those of stores, baselines, remotes, or conditions. Each
	// reconcile and each event of the informer then has a goroutine of its own, because these methods could call runtime.Goexit.
	CallsUserCode bool
	// Namespaced is true if the objects have namespaces.
	Namespaced bool
	// HasStatus is true if the kind has the status subresource.
	HasStatus bool
}

// DefaultConsistencyTimeout is the default of [Settings.ConsistencyTimeout], as in kopf.
const DefaultConsistencyTimeout = 5 * time.Second

// Settings are the settings of the operator. They are the same for all kinds.
type Settings struct {
	Client    client.Client
	Cache     client.Reader
	APIReader client.Reader
	// Tracked is the cache of the objects that handlers track. It is optional.
	Tracked cache.Cache
	// Log is the logger outside of reconciles.
	Log logr.Logger
	// Pause reports where the operator is paused. It is optional.
	Pause Pauser
	// Scope decides which objects the engine handles. If it is nil, the engine handles all objects.
	Scope Scope
	// Shard selects the objects of this process. If it is nil, the process handles all objects that the informers deliver.
	Shard *shards.Shard
	// Selector selects the objects that the informers deliver; nil for all objects. With a selector, an object that leaves the cache may still exist.
	Selector labels.Selector
	// Selects reports whether the informers deliver an object; nil if they deliver all objects.
	Selects func(client.Object) bool
	// Fence detects suspensions of the process. It is optional.
	Fence *fencing.Fence
	// Recorder posts Events. If it is nil, the engine posts none.
	Recorder events.EventRecorder
	// AggregatesEvents is true if the recorder counts repeated Events instead of writing each of them.
	AggregatesEvents bool
	// EventBurst and EventInterval are the quota of Events of each object. With 0, the defaults of package eventrecorder apply.
	EventBurst    int
	EventInterval time.Duration
	// Events selects the automatic Events.
	Events eventrecorder.Level

	// Remote stores the framework's part of the objects outside of them. If Remote is nil, the objects contain the part.
	Remote   progress.Remote
	Store    progress.Store
	Baseline progress.Baseline
	// Pin stores the essence with which a cycle has begun. [New] sets it and Stamps.
	Pin       progress.Baseline
	Stamps    progress.Stamps
	Finalizer string
	// SharesFinalizer is true if other operators use the same finalizer by default.
	SharesFinalizer bool
	Lifecycle       progress.Lifecycle
	// Checkpoint is the working time of handlers after which the engine writes their outcomes before it calls the next handler.
	Checkpoint time.Duration
	// ConsistencyTimeout is the time in which the cache must show our own write. Afterwards, the engine reads the object from the API server. Default:
	// [DefaultConsistencyTimeout].
	ConsistencyTimeout time.Duration
	// Backoff is the backoff of handlers without one, except for reconcile handlers. If it is nil, [progress.DefaultBackoff] applies.
	Backoff *time.Duration
	// LogEvents posts the log lines of handlers as Events.
	LogEvents bool
	// CauseHolds keep back handlers of causes. The first hold that applies counts.
	CauseHolds []CauseHold
	// AttemptHooks are called before and after each attempt of a handler.
	AttemptHooks []invoke.AttemptHook
}

// WritesEventChanges reports whether the changes of an event handler are written.
func (e *Kind) WritesEventChanges() bool {
	return e.EventHandlers.Any(func(h *invoke.Handler) bool { return h.WritesChanges })
}

// comparesStates reports whether a handler needs the last-handled configuration.
func (e *Kind) comparesStates() bool {
	return e.Handlers.Any(func(h *invoke.Handler) bool { return h.ComparesStates() })
}

// HandlesRelatedChanges reports whether a handler is called for changes of related objects.
func (e *Kind) HandlesRelatedChanges() bool {
	return e.retriesOnRelatedChange() || e.ReconcileHandlers.Any(func(h *invoke.Handler) bool { return h.ClusterEvents == "" })
}

// HandlesEachObjectAtStart reports whether each matching object is handled at the start of a process, even if it has not changed.
func (e *Kind) HandlesEachObjectAtStart() bool {
	return len(e.Indexes.IDs())+len(e.BackgroundHandlers.IDs())+len(e.ReconcileHandlers.IDs()) > 0
}

// retriesOnRelatedChange reports whether changes of related objects call cause handlers that wait.
func (e *Kind) retriesOnRelatedChange() bool {
	return e.Handlers.Any(func(h *invoke.Handler) bool { return h.RetriesOnRelatedChange })
}

// callsAfterDeletion reports whether a reconcile handler is called when an object no longer exists.
func (e *Kind) callsAfterDeletion() bool {
	return e.ReconcileHandlers.Any(func(h *invoke.Handler) bool { return h.CalledAfterDeletion })
}

// IsSecret reports whether the kind is that of Secrets.
func (e *Kind) IsSecret() bool { return e.GVK.GroupKind() == schema.GroupKind{Kind: "Secret"} }

// ClearIndexes removes all objects from the indexes: an earlier operator in this process may have filled them.
func (e *Kind) ClearIndexes() {
	for _, index := range e.Indexes.All() {
		index.Clear()
	}
}

// SetIndexesSynced records whether the indexes have seen the whole first list.
func (e *Kind) SetIndexesSynced(synced bool) {
	for _, index := range e.Indexes.All() {
		index.SetSynced(synced)
	}
}

// HandlerStores returns the stores of handlers that have their own, by id.
func (e *Kind) HandlerStores() map[string]progress.Store {
	stores := map[string]progress.Store{}
	for id, handler := range e.Handlers.All() {
		if handler.Store != nil {
			stores[id] = handler.Store
		}
	}
	return stores
}

// usesFinalizer reports whether the engine adds the finalizer, or removes one that an earlier version has added. Without any handler that could need it, a name
// that other operators share is theirs.
func (e *Kind) usesFinalizer(shared bool) bool {
	return !shared || len(e.Handlers.IDs())+len(e.BackgroundHandlers.IDs()) > 0
}

// storesNothing reports whether all cause handlers keep their progress in memory. The operator then leaves nothing else on the objects, either.
func (e *Kind) storesNothing(stores map[string]progress.Store) bool {
	return !slices.ContainsFunc(e.Handlers.IDs(), func(id string) bool { return !progress.IsInMemory(stores[id]) })
}

// conditionOptions returns the options that locate the conditions of the kind.
func (e *Kind) conditionOptions() []conditions.Option {
	options := slices.Clone(e.ConditionOptions)
	if !e.HasStatus {
		options = append(options, conditions.WithoutSubresource())
	}
	return options
}

// Pauser reports where the operator is paused, and why.
type Pauser interface {
	Paused(namespace string) (paused bool, why string)
}

// A Scope decides which objects an engine handles. Its methods must be safe for concurrent use.
//
// When a namespace comes into scope, [Engine.Entered] must be called before the informer delivers its objects, and [Engine.Admitted] when Admits begins to
// return true. When objects leave the scope, [Engine.Quiesce] must be called, and [Engine.Left] after the informer of the namespace has stopped.
type Scope interface {
	// InScope reports whether the object of a key is handled.
	InScope(key types.NamespacedName) bool
	// Admits reports whether handlers may be called for an object in scope. Otherwise, the object is only observed and indexed.
	Admits(key types.NamespacedName) bool
}

// ownConditions returns the types of the conditions that the operator sets by declaration.
func (e *Kind) ownConditions() []string {
	types := slices.Clone(e.DeclaredConditions)
	if e.Root != nil {
		types = append(types, cmp.Or(e.Root.Type, "Ready"))
	}
	if e.PanicCondition != "" {
		types = append(types, e.PanicCondition)
	}
	for _, handlers := range []*registry.Registry[*invoke.Handler]{&e.Handlers, &e.ReconcileHandlers} {
		for _, h := range handlers.All() {
			if h.ConditionType != "" {
				types = append(types, h.ConditionType)
			}
		}
	}
	return types
}

// mayReportConditions reports whether the kind has conditions that the engine sets.
func (e *Kind) mayReportConditions() bool { return len(e.ownConditions()) > 0 }

// tracksChanges reports whether handlers are called for changes by others.
func (e *Kind) tracksChanges() bool {
	return len(e.ReconcileHandlers.IDs()) > 0 || e.retriesOnRelatedChange()
}

// withDefaults returns a copy of the handler with the defaults of the operator.
func (s *Settings) withDefaults(h *invoke.Handler) *invoke.Handler {
	h = new(*h)
	h.Policy = s.PolicyOf(h.Policy)
	if s.LogEvents {
		h.Do = invoke.WithLogEvents(h.Do)
	}
	return h
}

// withPolicy returns a copy of a handler with another policy.
func withPolicy(h *invoke.Handler, policy progress.Policy) *invoke.Handler {
	h = new(*h)
	h.Policy = policy
	return h
}

// withHandlerDefaults returns a copy of the kind whose handlers have the defaults of the operator.
func (e *Kind) withHandlerDefaults(s *Settings) Kind {
	kind := *e
	kind.Handlers, kind.EventHandlers = e.Handlers.Map(s.withDefaults), e.EventHandlers.Map(s.withDefaults)
	kind.ReconcileHandlers = e.ReconcileHandlers.Map(func(h *invoke.Handler) *invoke.Handler {
		if h.ClusterEvents == "" {
			return withPolicy(s.withDefaults(h), h.Policy) // reconcile handlers have a backoff of their own
		}
		return s.withDefaults(h)
	})
	kind.Indexes = e.Indexes.Map(func(h *invoke.IndexHandler) *invoke.IndexHandler {
		h = new(*h)
		h.Handler = *s.withDefaults(&h.Handler)
		return h
	})
	kind.BackgroundHandlers = e.BackgroundHandlers.Map(func(h *invoke.BackgroundHandler) *invoke.BackgroundHandler {
		h = new(*h)
		h.Handler = *s.withDefaults(&h.Handler)
		return h
	})
	return kind
}

// PolicyOf returns the policy of a handler. If the policy has no backoff, PolicyOf sets the backoff of the operator.
func (s *Settings) PolicyOf(policy progress.Policy) progress.Policy {
	if policy.Backoff == nil && policy.BackoffFunc == nil {
		policy.Backoff = s.Backoff
	}
	return policy
}
