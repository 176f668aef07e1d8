package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/shards"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/suspension"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Kind is one resource with its handlers.
type Kind struct {
	Name string // the controller's name in logs and metrics
	GVK  schema.GroupVersionKind
	New  func() client.Object
	// Handlers are the cause handlers.
	Handlers invoke.Registry[*invoke.Handler]
	// EventHandlers are called for every observed event. ReconcileHandlers are called after changes, or for Kubernetes Events. The progress
	// of both is kept in memory only.
	EventHandlers, ReconcileHandlers invoke.Registry[*invoke.Handler]
	// Indexes are the index handlers, which are called before all other handlers.
	Indexes invoke.Registry[*invoke.IndexHandler]
	// BackgroundHandlers are the daemons and timers.
	BackgroundHandlers invoke.Registry[*invoke.BackgroundHandler]
	// Only selects the objects of the kind that the operator watches; nil selects all.
	Only *client.ListOptions
	// Fields are additional fields of the essence.
	Fields [][]string
	// Watched are those of Fields whose changes are always updates, even if handlers make them.
	Watched [][]string
	// OwnChanges is true if all changes made by this operator's handlers count as updates, too.
	OwnChanges bool
	// DigestOnly is true if objects contain only digests of the last-handled configuration and the pin.
	DigestOnly bool
	// Conditions are the condition types whose transitions are updates.
	Conditions []string
	// ConditionOptions say where conditions are stored. Default: status.conditions.
	ConditionOptions []conditions.Option
	// DeclaredConditions are the condition types that each object has from its first reconcile on.
	DeclaredConditions []string
	// PanicCondition is the condition type that reports panics of handlers, or empty.
	PanicCondition string
	// Root is the condition that summarizes other conditions, or nil.
	Root *conditions.Root
	// Results is the path of the field that contains handlers' results, by id.
	Results []string
	// LoopLimit is how many updates per minute handlers may cause themselves before the engine delays further ones. 0 means that it never
	// does.
	LoopLimit int
	// RateLimiter is the controller's rate limiter, used for the backoff of reconcile handlers. It is optional.
	RateLimiter workqueue.TypedRateLimiter[reconcile.Request]
	// CallsUserCode is true if the engine calls users' methods outside of handlers and filters: those of stores, baselines, remotes, or
	// conditions. Each reconcile and each informer event then runs in its own goroutine, because such a method could call runtime.Goexit.
	CallsUserCode bool
	// Namespaced is true if the objects have namespaces.
	Namespaced bool
	// HasStatus is true if the kind has the status subresource.
	HasStatus bool
}

// DefaultConsistencyTimeout is the default of [Settings.ConsistencyTimeout], as in kopf.
const DefaultConsistencyTimeout = 5 * time.Second

// Settings are the operator's settings. They are the same for all kinds.
type Settings struct {
	Client    client.Client
	Cache     client.Reader
	APIReader client.Reader
	// Tracked is the cache for objects that handlers track. It is optional.
	Tracked cache.Cache
	// Log is the logger used outside of reconciles.
	Log logr.Logger
	// Pause reports where the operator is paused. It is optional.
	Pause Pauser
	// Scope decides which objects the engine handles; nil means all.
	Scope Scope
	// Shard selects this process's objects; nil means all that the informers deliver.
	Shard *shards.Shard
	// Selector selects the objects that the informers deliver, by labels and fields; nil means all. With a selector, an object that leaves the
	// cache may still exist.
	Selector *client.ListOptions
	// Selects reports whether the informers deliver an object; nil means that they deliver all.
	Selects func(client.Object) bool
	// Fence detects that the process was suspended. It is optional.
	Fence *suspension.Fence
	// Recorder posts Events. If it is nil, none are posted.
	Recorder events.EventRecorder
	// AggregatesEvents is true if the recorder counts repeated Events instead of writing each of them.
	AggregatesEvents bool
	// EventBurst and EventInterval limit the Events of each object. 0 means the defaults of package eventrecorder.
	EventBurst    int
	EventInterval time.Duration
	// Events selects which Events are posted automatically.
	Events eventrecorder.Level

	// Remote stores the framework's part outside of the objects. If it is nil, the objects contain that part.
	Remote   progress.Remote
	Store    progress.Store
	Baseline progress.Baseline
	// Pin stores the essence that a cycle works on. [New] sets Pin and Stamps.
	Pin       progress.Baseline
	Stamps    progress.Stamps
	Finalizer string
	// SharesFinalizer is true if other operators use the same finalizer by default.
	SharesFinalizer bool
	Lifecycle       progress.Lifecycle
	// Checkpoint is how long handlers may work before the engine writes their outcomes, and only then calls the next one.
	Checkpoint time.Duration
	// ConsistencyTimeout is how long the cache may take to show our own write. After that, the engine reads the object from the API server.
	// Default: [DefaultConsistencyTimeout].
	ConsistencyTimeout time.Duration
	// Backoff is for handlers without their own backoff, except for reconcile handlers. If it is nil, [progress.DefaultBackoff] applies.
	Backoff *time.Duration
	// LeanCaches is true if the caches contain shrunk objects, see [LeanForm].
	LeanCaches bool
	// LogEvents posts handlers' log lines as Events.
	LogEvents bool
	// CauseHolds hold the handlers of causes. The first one that applies counts.
	CauseHolds []CauseHold
	// Rollout limits how many objects at a time are handled for newer revisions. It is optional.
	Rollout Rollout
	// OptOut is the annotation with which users keep objects out of rollouts. It is optional.
	OptOut string
	// AttemptHooks are called before and after each attempt of a handler.
	AttemptHooks []invoke.AttemptHook
}

// WritesEventChanges reports whether any event handler's changes are written.
func (e *Kind) WritesEventChanges() bool {
	return e.EventHandlers.Any(func(h *invoke.Handler) bool { return h.WritesChanges })
}

// comparesStates reports whether any handler needs the last-handled configuration.
func (e *Kind) comparesStates() bool {
	return e.Handlers.Any(func(h *invoke.Handler) bool { return h.ComparesStates() })
}

// HandlesRelatedChanges reports whether any handler is called when related objects change.
func (e *Kind) HandlesRelatedChanges() bool {
	return e.retriesOnRelatedChange() || e.ReconcileHandlers.Any(func(h *invoke.Handler) bool { return h.ClusterEvents == "" })
}

// HandlesEachObjectAtStart reports whether each matching object is handled when a process starts, even if it hasn't changed.
func (e *Kind) HandlesEachObjectAtStart() bool {
	return len(e.Indexes.IDs())+len(e.BackgroundHandlers.IDs())+len(e.ReconcileHandlers.IDs()) > 0
}

// retriesOnRelatedChange reports whether waiting cause handlers are called when related objects change.
func (e *Kind) retriesOnRelatedChange() bool {
	return e.Handlers.Any(func(h *invoke.Handler) bool { return h.RetriesOnRelatedChange })
}

// callsAfterDeletion reports whether any reconcile handler is called once an object no longer exists.
func (e *Kind) callsAfterDeletion() bool {
	return e.ReconcileHandlers.Any(func(h *invoke.Handler) bool { return h.CalledAfterDeletion })
}

// IsSecret reports whether the objects are Secrets.
func (e *Kind) IsSecret() bool { return e.GVK.GroupKind() == schema.GroupKind{Kind: "Secret"} }

// ClearIndexes empties the indexes, because an earlier operator in this process may have filled them.
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

// usesFinalizer reports whether the engine adds the finalizer, or removes one that an earlier version has added. If no handler could need
// it, a finalizer whose name is shared belongs to other operators.
func (e *Kind) usesFinalizer(shared bool) bool {
	return !shared || len(e.Handlers.IDs())+len(e.BackgroundHandlers.IDs()) > 0
}

// storesNothing reports whether all cause handlers keep their progress in memory. The operator then leaves nothing else on the objects,
// either.
func (e *Kind) storesNothing(stores map[string]progress.Store) bool {
	return !slices.ContainsFunc(e.Handlers.IDs(), func(id string) bool { return !progress.IsInMemory(stores[id]) })
}

// conditionOptions returns the options that say where the kind's conditions are stored.
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
// When a namespace comes into scope, call [Engine.Entered] before the informer delivers its objects, and [Engine.Admitted] as soon as
// Admits returns true. When objects go out of scope, call [Engine.Quiesce], and then [Engine.Left] once the namespace's informer has
// stopped.
type Scope interface {
	// InScope reports whether a key's object is handled.
	InScope(key types.NamespacedName) bool
	// Admits reports whether handlers may be called for an object in scope. Until then, it is only observed and indexed.
	Admits(key types.NamespacedName) bool
}

// ownConditions returns the condition types that the operator sets because they were declared.
func (e *Kind) ownConditions() []string {
	types := slices.Clone(e.DeclaredConditions)
	if e.Root != nil {
		types = append(types, cmp.Or(e.Root.Type, "Ready"))
	}
	if e.PanicCondition != "" {
		types = append(types, e.PanicCondition)
	}
	for _, handlers := range []*invoke.Registry[*invoke.Handler]{&e.Handlers, &e.ReconcileHandlers} {
		for _, h := range handlers.All() {
			if h.ConditionType != "" {
				types = append(types, h.ConditionType)
			}
		}
	}
	return types
}

// mayReportConditions reports whether the engine sets any conditions of the kind.
func (e *Kind) mayReportConditions() bool { return len(e.ownConditions()) > 0 }

// tracksChanges reports whether any handler is called for changes by others.
func (e *Kind) tracksChanges() bool {
	return len(e.ReconcileHandlers.IDs()) > 0 || e.retriesOnRelatedChange()
}

// withDefaults returns a copy of the handler with the operator's defaults.
func (s *Settings) withDefaults(h *invoke.Handler) *invoke.Handler {
	h = new(*h)
	h.Policy = s.PolicyOf(h.Policy)
	if s.LogEvents {
		h.Do = invoke.WithLogEvents(h.Do)
	}
	return h
}

// withPolicy returns a copy of a handler with a different policy.
func withPolicy(h *invoke.Handler, policy progress.Policy) *invoke.Handler {
	h = new(*h)
	h.Policy = policy
	return h
}

// withHandlerDefaults returns a copy of the kind whose handlers have the operator's defaults.
func (e *Kind) withHandlerDefaults(s *Settings) Kind {
	kind := *e
	kind.Handlers, kind.EventHandlers = e.Handlers.Map(s.withDefaults), e.EventHandlers.Map(s.withDefaults)
	kind.ReconcileHandlers = e.ReconcileHandlers.Map(func(h *invoke.Handler) *invoke.Handler {
		if h.ClusterEvents == "" {
			return withPolicy(s.withDefaults(h), h.Policy) // reconcile handlers have their own default backoff
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

// PolicyOf returns a handler's policy, with the operator's backoff if it doesn't have its own.
func (s *Settings) PolicyOf(policy progress.Policy) progress.Policy {
	if policy.Backoff == nil && policy.BackoffFunc == nil {
		policy.Backoff = s.Backoff
	}
	return policy
}
