package ring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/shards"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// Part runs an operator as one shard of a ring. With a nil Part, the operator isn't sharded.
type Part struct {
	ring    sharding.Ring
	manager manager.Manager
	lease   *operator.LeaseDurations
	engines *operator.Set[*engine.Engine]

	shard           *shards.Shard         // of a ControllerRing; nil before the start
	held            atomic.Pointer[Lease] // nil before the start
	warnAboutServer func()                // logs once that the API server ignores shard selectors

	mu         sync.Mutex
	unfinished []*engine.Engine // stopped engines with daemons or timers that have not returned
}

// New returns the part for a ring.
func New(ring sharding.Ring, mgr manager.Manager, lease *operator.LeaseDurations, engines *operator.Set[*engine.Engine]) *Part {
	return &Part{ring: ring, manager: mgr, lease: lease, engines: engines}
}

// Shards reports whether the kind is sharded, so that each process handles only some of its objects.
func (p *Part) Shards(kind *engine.Kind) bool {
	handlers := len(kind.Handlers.IDs()) + len(kind.EventHandlers.IDs()) + len(kind.ReconcileHandlers.IDs()) + len(kind.BackgroundHandlers.IDs())
	return p != nil && handlers > 0
}

// CheckKind returns an error if a sharded kind has an index.
func (p *Part) CheckKind(kind *engine.Kind) error {
	if indexes := kind.Indexes.IDs(); p.Shards(kind) && len(indexes) > 0 {
		return fmt.Errorf("%s: IndexBy(%q): with WithSharding, the index would contain only the objects of one replica: "+
			"put the index into another operator without sharding, or read the objects with a client", kind.GVK.Kind, indexes[0])
	}
	return nil
}

// CheckRelated returns an error if a related kind is sharded, too. method is what declared the related kind, and kinds are all kinds with
// handlers.
func (p *Part) CheckRelated(method string, related schema.GroupVersionKind, kinds []engine.Kind) error {
	if slices.ContainsFunc(kinds, func(kind engine.Kind) bool { return kind.GVK == related && p.Shards(&kind) }) {
		return fmt.Errorf("%s(%s): the kind is also sharded, so that changes of other replicas' objects would go unnoticed: "+
			"handle the kind in another operator with a ring of its own", method, related.Kind)
	}
	return nil
}

// Mistakes returns the mistakes in the ring's options.
func (p *Part) Mistakes() (errs []error) {
	if p != nil && *p.lease == (operator.LeaseDurations{}) {
		errs = append(errs, errors.New("WithSharding needs the durations of the Lease: remove WithLeaseDurations(0, 0, 0)"))
	}
	return errs
}

// Check returns an error if the shard's name or namespace is unknown.
func (p *Part) Check() (errs []error) {
	if p == nil {
		return nil
	}
	_, err := p.ring.Shard()
	_, namespaceErr := p.ring.Namespace()
	for _, err := range []error{err, namespaceErr} {
		if err != nil {
			errs = append(errs, fmt.Errorf("WithSharding: %w", err))
		}
	}
	return errs
}

// NewInformer is the type of a cache's function that creates its informers.
type NewInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// Informers returns a function that creates informers, which for sharded kinds deliver only the objects of this process. kinds are the
// cache's kinds. If the API server doesn't select objects by hash, it returns next.
func (p *Part) Informers(next NewInformer, kinds []engine.Kind) NewInformer {
	if p == nil || p.ring.Selector() == nil {
		return next
	}
	return func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		gvk, err := apiutil.GVKForObject(obj, p.manager.GetScheme())
		if err == nil && slices.ContainsFunc(kinds, func(kind engine.Kind) bool { return kind.GVK == gvk && p.Shards(&kind) }) {
			lw = watching.WithShardSelector(lw, p.ring.Selector(), p.warnAboutServer)
		}
		return next(lw, obj, resync, indexers)
	}
}

// Labels returns the label selector for watching a kind, or nil for all objects.
func (p *Part) Labels(kind *engine.Kind) labels.Selector {
	shard := p.ShardOf(kind)
	if shard == nil {
		return nil
	}
	return labels.SelectorFromSet(labels.Set{shard.Label: shard.Name})
}

// Selects reports whether an object belongs to this process by its hash.
func (p *Part) Selects(kind *engine.Kind, obj client.Object) bool {
	if !p.Shards(kind) || p.ring.Selector() == nil {
		return true
	}
	selected, err := p.ring.Selector().Matches(obj)
	return err == nil && selected
}

// ShardOf returns the shard of this process if the kind's objects move between processes, otherwise nil.
func (p *Part) ShardOf(kind *engine.Kind) *shards.Shard {
	if !p.Shards(kind) {
		return nil
	}
	return p.shard
}

// IsOverdue returns a function that reports whether the Lease was not renewed in time. It returns nil without a Lease.
func (p *Part) IsOverdue() func() bool {
	if p == nil || p.held.Load() == nil {
		return nil
	}
	return p.held.Load().IsOverdue
}

// MovesObjects reports whether a kind's objects move between processes.
func (p *Part) MovesObjects(kind *engine.Kind) bool { return p.Shards(kind) && p.ring.Total() == 0 }

// NeedsNamespace reports whether the shard's permissions depend on the operator's namespace.
func (p *Part) NeedsNamespace() bool { return p != nil && p.ring.ExplicitNamespace() == "" }

// Rights returns a shard's permissions. namespace is the operator's namespace, and may be empty outside a cluster.
func (p *Part) Rights(namespace string) []rbac.Need {
	if p == nil {
		return nil
	}
	if explicit := p.ring.ExplicitNamespace(); explicit != "" {
		namespace = explicit
	} else if found, err := p.ring.Namespace(); namespace == "" && err == nil {
		namespace = found
	}
	leases := rbac.Need{
		Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace, Verbs: []string{"get", "create", "update"}, Level: rbac.Required,
		Reason: "sharding: the Lease of the shard",
	}
	if p.ring.Total() > 0 {
		leases.Verbs, leases.Reason = append(leases.Verbs, "list"), "sharding: the Leases of the shards"
		return []rbac.Need{leases}
	}
	list := leases
	list.Verbs, list.Level = []string{"list"}, rbac.Optional
	list.Reason = "optional: without list, the sharder detects a crash only after two durations of the Lease"
	return []rbac.Need{
		leases,
		list,
		{Group: ringKind.Group, Resource: "controllerrings", Verbs: []string{"get"}, Reason: "optional: without it, the kinds of the ring are not checked"},
	}
}

// Run acquires the shard's Lease, calls run while it holds the Lease, and then releases it. If the Lease is lost, Run returns an error
// before other shards can handle the objects, even if run hasn't returned by then. If daemons or timers are still running after run, the
// Lease is renewed until they return. Without a ring, Run only calls run.
func (p *Part) Run(ctx context.Context, run func(context.Context) error) error {
	if p == nil {
		return run(ctx)
	}
	release, err := p.reserve()
	if err != nil {
		return err
	}
	defer release()
	renewed := metrics.ShardLeaseRenewed.WithLabelValues(p.ring.Name())
	renewed.Set(0)
	options, err := p.leaseOptions(ctx)
	if err != nil {
		return fmt.Errorf("the operator cannot start:\nWithSharding: %w", err)
	}
	lease, err := AcquireLease(ctx, options)
	if err != nil {
		if ctx.Err() != nil {
			return nil // the operator was stopped while it was waiting for the Lease
		}
		return fmt.Errorf("the operator cannot start:\nWithSharding: %w", err)
	}
	p.held.Store(lease)
	log := p.manager.GetLogger().WithValues("ring", p.ring.Name(), "shard", options.Name)
	log.Info("Holding the Lease of the shard")
	var marking sync.WaitGroup
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if options.Total == 0 {
		marking.Go(func() { MarkDeadShards(running, options) })
	}
	ended := make(chan error, 1)
	go func() { ended <- run(running) }()
	keeping := keepLease(ctx, lease)
	select {
	case err := <-ended:
		cancel(nil)
		defer marking.Wait() // but not after losing the Lease, because requests can ignore their contexts
		if p.Unfinished() == 0 {
			defer renewed.Set(0)
			return errors.Join(err, keeping.release(log))
		}
		log.Info("Daemons or timers have not returned; the Lease of the shard is renewed until they return or the process ends")
		go func() {
			defer renewed.Set(0)
			if err := p.awaitUnfinished(keeping, options.RetryPeriod); err != nil {
				log.Error(err, "The Lease of the shard is lost; other shards can handle the objects of daemons and timers that have not returned")
				return
			}
			_ = keeping.release(log) // the error can only be ignored
		}()
		return err
	case lostErr := <-keeping.lost:
		defer renewed.Set(0)
		keeping.stop()
		cancel(lostErr)
		return p.awaitEnd(ended, lease.Remaining(), lostErr)
	}
}

// AddEnded adds a stopped engine if some of its daemons or timers have not returned.
func (p *Part) AddEnded(e *engine.Engine) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unfinished = slices.DeleteFunc(append(p.unfinished, e), hasReturned)
}

// Unfinished returns how many stopped engines have daemons or timers that have not returned.
func (p *Part) Unfinished() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unfinished = slices.DeleteFunc(p.unfinished, hasReturned)
	return len(p.unfinished)
}

// hasReturned reports whether all daemons and timers of a stopped engine have returned.
func hasReturned(e *engine.Engine) bool { return !e.HasRuns() }

// awaitUnfinished waits until all daemons and timers have returned. It returns an error if the Lease is lost before.
func (p *Part) awaitUnfinished(k keeping, interval time.Duration) error {
	for p.Unfinished() > 0 {
		select {
		case err := <-k.lost:
			k.stop()
			return err
		case <-time.After(interval):
		}
	}
	return nil
}

// keeping is a Lease that is being renewed.
type keeping struct {
	ctx   context.Context // the operator's, but never cancelled
	lease *Lease
	stop  context.CancelFunc
	lost  chan error // receives Keep's result
}

// keepLease renews a Lease even after the context is cancelled, because handlers may keep running for some time.
func keepLease(ctx context.Context, lease *Lease) keeping {
	k := keeping{ctx: context.WithoutCancel(ctx), lease: lease, lost: make(chan error, 1)}
	renewing, stop := context.WithCancel(k.ctx)
	k.stop = stop
	go func() { k.lost <- lease.Keep(renewing) }()
	return k
}

// release stops renewing and releases the Lease. It returns an error if the Lease was lost.
func (k keeping) release(log logr.Logger) error {
	k.stop()
	if err := <-k.lost; err != nil {
		return err
	}
	if err := k.lease.Release(k.ctx); err != nil {
		log.Error(err, "Failed to release the Lease of the shard; it expires")
	}
	return nil
}

// awaitEnd waits a limited time for run to return. Then it closes the engines so that they write nothing more. It returns the error lost,
// joined with run's error.
func (p *Part) awaitEnd(ended <-chan error, limit time.Duration, lost error) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-ended:
		return errors.Join(lost, err)
	case <-timer.C:
		for _, e := range p.engines.All() {
			e.Close()
		}
		return lost
	}
}

// reserve reserves the ring until release is called. It fails if another operator of the manager is in the ring.
func (p *Part) reserve() (release func(), err error) {
	release, taken := operator.Reserve(operator.Reservation{Manager: p.manager, Kind: ringKind, Value: p.ring.Name()})
	if len(taken) > 0 {
		return nil, fmt.Errorf("the operator cannot start:\nWithSharding: another operator of this manager is in the ring %q: put the handlers into one operator", p.ring.Name())
	}
	return release, nil
}

// fixedRingLabel labels the Leases of rings with a fixed number of shards. The sharder ignores them.
const fixedRingLabel = "kopf-runtime.dev/ring"

// leaseOptions returns the options for the shard's Lease. Leases get their own client without a rate limit, so that other requests can't
// delay the renewals.
func (p *Part) leaseOptions(ctx context.Context) (LeaseOptions, error) {
	name, nameErr := p.ring.Shard()
	namespace, namespaceErr := p.ring.Namespace()
	if err := errors.Join(nameErr, namespaceErr); err != nil {
		return LeaseOptions{}, err
	}
	config := rest.CopyConfig(p.manager.GetConfig())
	config.QPS, config.RateLimiter = -1, nil
	config.Timeout = p.lease.RenewDeadline / 2
	config.ContentType = "application/json"
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return LeaseOptions{}, fmt.Errorf("creating the client for the Lease: %w", err)
	}
	identity := Identity{Namespace: namespace, Name: name, Ring: p.ring.Name(), Total: p.ring.Total(), Instance: string(uuid.NewUUID())}
	if identity.Total > 0 {
		identity.RingLabel = fixedRingLabel
		p.warnAboutServer = sync.OnceFunc(func() {
			p.manager.GetLogger().Info("The API server ignores shard selectors and sends the objects of all shards; the operator ignores the objects of other processes",
				"ring", p.ring.Name(), "featureGate", "ShardedListAndWatch")
		})
	} else {
		identity.RingLabel = sharding.LeaseLabel
		p.shard = &shards.Shard{Label: sharding.ShardLabel(p.ring.Name()), Name: name, Drain: sharding.DrainLabel(p.ring.Name())}
	}
	return LeaseOptions{
		Identity: identity,
		Client:   leases, Duration: p.lease.Lease, RenewDeadline: p.lease.RenewDeadline, RetryPeriod: p.lease.RetryPeriod,
		OnRenewal: func(at time.Time) {
			metrics.ShardLeaseRenewed.WithLabelValues(p.ring.Name()).Set(float64(at.UnixMilli()) / 1000)
		},
		WallClock: testhook.WallClockOrNil(ctx), Log: p.manager.GetLogger().WithValues("ring", p.ring.Name()),
	}, nil
}
