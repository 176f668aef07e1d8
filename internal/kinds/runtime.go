package kinds

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/namespaces"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/ring"
)

// Runtime is what an operator's kinds share. The exported fields must not change after the operator has started.
type Runtime struct {
	Manager  manager.Manager
	Settings engine.Settings // as the operator declares them
	// HasDynamicKinds is true if the operator has kinds that come and go.
	HasDynamicKinds bool

	Namespaces *namespaces.Part // nil for the cache's namespaces
	Ring       *ring.Part       // nil without sharding
	// PauseScopes returns the namespaces that can be paused separately; "" means all namespaces.
	PauseScopes func() []string
	// Comes and Goes are called when the API server starts and stops serving a kind that comes and goes.
	Comes func(Kind)
	Goes  func(schema.GroupVersionKind)

	Wrappers      []func(reconcile.Reconciler) reconcile.Reconciler
	CacheOptions  cache.Options   // for the operator's own caches
	WatchSelector labels.Selector // nil for all objects
	SelectsKinds  bool            // whether a fixed kind has a selector of its own
	WatchCheck    time.Duration   // how often to check; 0 disables it
	Reporters     []string        // reporting controllers of the operator's own Events
	// ServesAdmission is true if the operator has admission handlers.
	ServesAdmission bool

	Engines operator.Set[*engine.Engine] // the running engines
	Clients Clients
	Watches Watches
	Units   *operator.Units[schema.GroupVersionKind] // one for each kind
	Warmth  Warmth

	isPreparing atomic.Bool   // the operator has started, but doesn't know its fixed kinds yet
	discovering atomic.Bool   // the first discovery of kinds hasn't succeeded yet
	ended       chan struct{} // has an element after a unit has ended
}

// NewRuntime returns what an operator's kinds share.
func NewRuntime(mgr manager.Manager) *Runtime {
	r := &Runtime{
		Manager: mgr, PauseScopes: func() []string { return []string{""} }, Comes: func(Kind) {}, Goes: func(schema.GroupVersionKind) {},
		Watches: Watches{undecodable: newUndecodable()}, ended: make(chan struct{}, 1),
	}
	r.Units = operator.NewUnits[schema.GroupVersionKind](metrics.NewKindCount(), func() {
		select {
		case r.ended <- struct{}{}:
		default: // an earlier element has not been received yet
		}
	})
	return r
}

// BeginStart ends the warm-up, and records that the operator is starting.
func (r *Runtime) BeginStart() {
	r.Warmth.Finish()
	r.isPreparing.Store(true)
}

// EndStart records that the operator no longer waits for its kinds, even if it hasn't found them.
func (r *Runtime) EndStart() {
	r.isPreparing.Store(false)
	r.discovering.Store(false)
}

// IsStarting reports whether the operator hasn't found all kinds yet, or hasn't received the objects of the fixed ones.
func (r *Runtime) IsStarting() bool {
	return r.isPreparing.Load() || r.discovering.Load() || r.Units.KeptIn(operator.Starting)
}

// Fixed returns a part with the units of the fixed kinds. They run until the operator stops, or until one of them fails.
func (r *Runtime) Fixed(units []*Unit) operator.Running {
	var engines []*engine.Engine
	var kinds []schema.GroupVersionKind
	for _, u := range units {
		engines, kinds = append(engines, u.engine), append(kinds, u.kind.GVK)
	}
	forget, remove := r.Units.Keep(kinds...), r.Engines.Add(engines...)
	r.isPreparing.Store(false)
	return operator.Running{
		Run: func(ctx context.Context) error {
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error {
				<-ctx.Done() // an operator without fixed kinds runs, too
				return nil
			})
			for _, u := range units {
				group.Go(func() error { return u.Run(ctx) })
			}
			return group.Wait()
		},
		Close: func() { remove(); forget(); r.EndStart() },
	}
}

// MemosOf returns the memos of an object that this process handles. For other objects, the memos are empty and aren't stored.
func (r *Runtime) MemosOf(gvk schema.GroupVersionKind, uid types.UID) *objectstate.Memos {
	for _, e := range r.Engines.All() {
		if e.GVK == gvk {
			return e.Memos(uid)
		}
	}
	return &objectstate.Memos{}
}
