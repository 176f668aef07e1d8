package kinds

import (
	"errors"
	"sync/atomic"
	"time"

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

// Runtime is what the kinds of an operator share. The exported fields must not change after the start of the operator.
type Runtime struct {
	Manager  manager.Manager
	Settings engine.Settings // the settings that the operator declares
	// HasDynamicKinds is true if the operator has kinds that come and go.
	HasDynamicKinds bool

	Namespaces *namespaces.Part // nil for the namespaces of the cache
	Ring       *ring.Part       // nil without sharding
	// PauseScopes returns the namespaces that can be paused separately. The element "" means all namespaces.
	PauseScopes func() []string
	// Comes and Goes are called when a kind that comes and goes is served, and when it is no longer served.
	Comes func(Kind)
	Goes  func(schema.GroupVersionKind)

	Wrappers      []func(reconcile.Reconciler) reconcile.Reconciler
	CacheOptions  cache.Options   // for the caches of the operator
	WatchSelector labels.Selector // nil for all objects
	WatchCheck    time.Duration   // interval of the check; 0 disables it
	Reporters     []string        // the reporting controllers of the operator's own Events
	// ServesAdmission is true if the operator has admission handlers.
	ServesAdmission bool

	Engines operator.Set[*engine.Engine] // the running engines
	Clients Clients
	Watches Watches
	Units   *operator.Units[schema.GroupVersionKind] // the kinds that come and go
	Warmth  Warmth

	unsynced    atomic.Int64  // number of sources of fixed kinds that have not synced yet
	discovering atomic.Bool   // the first discovery of kinds has not succeeded yet
	ended       chan struct{} // has an element after a unit has ended
}

// NewRuntime returns what the kinds of an operator share.
func NewRuntime(mgr manager.Manager) *Runtime {
	r := &Runtime{
		Manager: mgr, PauseScopes: func() []string { return []string{""} }, Comes: func(Kind) {}, Goes: func(schema.GroupVersionKind) {},
		Watches: Watches{undecodable: newUndecodable()}, ended: make(chan struct{}, 1),
	}
	r.Units = operator.NewUnits[schema.GroupVersionKind](metrics.NewKindCount(), func() {
		select {
		case r.ended <- struct{}{}:
		default: // the end of another unit was not received yet
		}
	})
	return r
}

// SetUnsynced sets the number of sources that must sync before the operator is ready.
func (r *Runtime) SetUnsynced(sources int) { r.unsynced.Store(int64(sources)) }

// EndStart records that the operator waits for no source and no discovery any more, also if neither has succeeded.
func (r *Runtime) EndStart() {
	r.unsynced.Store(0)
	r.discovering.Store(false)
}

// Synced records that a source of a fixed kind has synced.
func (r *Runtime) Synced() { r.unsynced.Add(-1) }

// IsStarting reports whether the operator has not found all kinds yet, or not received their objects.
func (r *Runtime) IsStarting() bool { return r.unsynced.Load() > 0 || r.discovering.Load() }

// NotSynced returns an error while the caches of the operator fill.
func (r *Runtime) NotSynced() []error {
	if r.IsStarting() {
		return []error{errors.New("the operator is starting: its caches have not synced yet")}
	}
	return nil
}

// MemosOf returns the memos of an object that this process handles. For other objects, it returns empty memos and does not store them.
func (r *Runtime) MemosOf(gvk schema.GroupVersionKind, uid types.UID) *objectstate.Memos {
	for _, e := range r.Engines.All() {
		if e.GVK == gvk {
			return e.Memos(uid)
		}
	}
	return &objectstate.Memos{}
}
