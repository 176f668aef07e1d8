package kopf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/internal/shardlease"
	"github.com/kopf-runtime/kopf-runtime/internal/shards"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/internal/watching"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// WithSharding distributes the objects of the operator over its replicas. All replicas are active, without leader election. Each replica is a shard with a Lease of its own:
//
//	kopf.SetupWithManager(mgr, databases, kopf.WithSharding(sharding.ControllerRing("databases")))
//
// Each replica watches only its own objects of the kinds with handlers. It watches all objects of related kinds ([Resource.Owns], [Resource.Watches],
// [Request.Track]) and of kinds with only [IndexBy].
//
// With [sharding.ControllerRing], the sharder of kubernetes-controller-sharding must run in the cluster, and a ControllerRing must list the kinds of the operator. When an
// object moves to another replica, its handlers finish, its daemons and timers end with [daemons.ErrOutOfScope], and the operator writes their outcomes. The next replica
// resumes the object. The labels of the sharder never count as changes. With [sharding.ServerSide], which is experimental, objects do not move.
//
// [WithLeaseDurations] sets the durations of the Lease. An operator that cannot renew its Lease in time cancels the contexts of all handlers, and
// [Operator.Start] returns an error before other replicas can handle its objects. The process must then exit. The other replicas handle the objects of a
// crashed replica about one Lease duration after its last renewal if they can list Leases, and otherwise after two durations. If a user removes the shard
// label of an object, the operator loses the progress that it has not written yet.
//
// The operator has a cache of its own: see [WithKindCaches]. WithSharding cannot be combined with [WithPeering]. Default: no sharding.
func WithSharding(ring sharding.Ring) Option {
	return optionFunc(func(o *Operator) {
		if err := ring.Check(); err != nil {
			o.addError(fmt.Errorf("WithSharding: %w", err))
		}
		o.ring = &ring
	})
}

// isSharded reports whether each replica handles only a part of the objects of a kind.
func (o *Operator) isSharded(kind *engine.Kind) bool {
	handlers := len(kind.Handlers.IDs()) + len(kind.EventHandlers.IDs()) + len(kind.ReconcileHandlers.IDs()) + len(kind.BackgroundHandlers.IDs())
	return o.ring != nil && handlers > 0
}

// checkShardedKind returns an error if a sharded kind has an index.
func (o *Operator) checkShardedKind(kind *engine.Kind) error {
	if indexes := kind.Indexes.IDs(); o.isSharded(kind) && len(indexes) > 0 {
		return fmt.Errorf("%s: IndexBy(%q): with WithSharding, the index would contain only the objects of one replica: "+
			"put the index into another operator without sharding, or read the objects with a client", kind.GVK.Kind, indexes[0])
	}
	return nil
}

// checkSharding returns the errors of the declaration that depend on several options or kinds.
func (o *Operator) checkSharding(kinds []engine.Kind) (errs []error) {
	if o.ring == nil {
		return nil
	}
	if o.peers != nil && !o.peers.Standalone {
		errs = append(errs, errors.New("WithSharding and WithPeering: the replicas would be peers of equal priority and pause each other: remove one of the options"))
	}
	if o.lease == (leaseDurations{}) {
		errs = append(errs, errors.New("WithSharding needs the durations of the Lease: remove WithLeaseDurations(0, 0, 0)"))
	}
	_, err := o.ring.Shard()
	_, namespaceErr := o.ring.Namespace()
	for _, err := range []error{err, namespaceErr} {
		if err != nil {
			errs = append(errs, fmt.Errorf("WithSharding: %w", err))
		}
	}
	for _, r := range o.resources {
		for _, related := range r.relatedKinds() {
			if slices.ContainsFunc(kinds, func(kind engine.Kind) bool { return kind.GVK == related.gvk && o.isSharded(&kind) }) {
				errs = append(errs, fmt.Errorf("%s(%s): the kind is also sharded, so that changes of other replicas' objects would go unnoticed: "+
					"handle the kind in another operator with a ring of its own", related.method, related.gvk.Kind))
			}
		}
	}
	return errs
}

// newInformer creates an informer of a cache.
type newInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// selectByHash returns a function that creates informers. The informers of sharded kinds deliver only the objects of this process. kinds contains the kinds
// of the cache.
func (o *Operator) selectByHash(next newInformer, kinds []engine.Kind) newInformer {
	return func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		gvk, err := apiutil.GVKForObject(obj, o.mgr.GetScheme())
		if err == nil && slices.ContainsFunc(kinds, func(kind engine.Kind) bool { return kind.GVK == gvk && o.isSharded(&kind) }) {
			lw = watching.WithShardSelector(lw, o.ring.Selector(), o.warnAboutServer)
		}
		return next(lw, obj, resync, indexers)
	}
}

// selectorOf returns the label selector for the watch of a kind, or nil for all objects.
func (o *Operator) selectorOf(kind *engine.Kind) labels.Selector {
	if !o.isSharded(kind) || o.shard == nil {
		return o.watchSelector
	}
	return bothSelectors(o.watchSelector, labels.SelectorFromSet(labels.Set{o.shard.Label: o.shard.Name}))
}

// selects returns a function that reports whether the watch of a kind delivers an object.
func (o *Operator) selects(kind *engine.Kind) func(client.Object) bool {
	byLabel, isSharded := o.selectorOf(kind), o.isSharded(kind)
	return func(obj client.Object) bool {
		if byLabel != nil && !byLabel.Matches(labels.Set(obj.GetLabels())) {
			return false
		}
		if !isSharded || o.ring.Selector() == nil {
			return true
		}
		selected, err := o.ring.Selector().Matches(obj)
		return err == nil && selected
	}
}

// shardOf returns the shard of this process if the objects of the kind move between processes, and otherwise nil.
func (o *Operator) shardOf(kind *engine.Kind) *shards.Shard {
	if !o.isSharded(kind) {
		return nil
	}
	return o.shard
}

// ofRing returns the permissions of a shard. namespace is the namespace of the operator, and may be empty outside of a cluster.
func (o *Operator) ofRing(namespace string) []rbac.Need {
	if explicit := o.ring.ExplicitNamespace(); explicit != "" {
		namespace = explicit
	} else if found, err := o.ring.Namespace(); namespace == "" && err == nil {
		namespace = found
	}
	leases := rbac.Need{
		Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace, Verbs: []string{"get", "create", "update"}, Level: rbac.Required,
		Reason: "sharding: the Lease of the shard",
	}
	if o.ring.Total() > 0 {
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

// runInRing acquires the Lease of the shard, calls run while it holds the Lease, and then releases the Lease. If the Lease is lost, runInRing returns an error
// before other shards can handle the objects, even if run has not returned. If daemons or timers have not returned after run, the Lease is renewed until
// they return. Without a ring, runInRing only calls run.
func (o *Operator) runInRing(ctx context.Context, run func(context.Context) error) error {
	if o.ring == nil {
		return run(ctx)
	}
	release, err := o.reserveRing()
	if err != nil {
		return err
	}
	defer release()
	renewed := metrics.ShardLeaseRenewed.WithLabelValues(o.ring.Name())
	renewed.Set(0)
	options, err := o.leaseOptions(ctx)
	if err != nil {
		return fmt.Errorf("the operator cannot start:\nWithSharding: %w", err)
	}
	lease, err := shardlease.Acquire(ctx, options)
	if err != nil {
		if ctx.Err() != nil {
			return nil // the operator was stopped while it waited for the Lease
		}
		return fmt.Errorf("the operator cannot start:\nWithSharding: %w", err)
	}
	o.shardLease.Store(lease)
	log := o.mgr.GetLogger().WithValues("ring", o.ring.Name(), "shard", options.Name)
	log.Info("Holding the Lease of the shard")
	var marking sync.WaitGroup
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if options.Total == 0 {
		marking.Go(func() { shardlease.MarkDeadShards(running, options) })
	}
	ended := make(chan error, 1)
	go func() { ended <- run(running) }()
	keeping := keepLease(ctx, lease)
	select {
	case err := <-ended:
		cancel(nil)
		defer marking.Wait() // not after the loss of the Lease, because requests can ignore their contexts
		if !o.hasUnfinished() {
			defer renewed.Set(0)
			return errors.Join(err, keeping.release(log))
		}
		log.Info("Daemons or timers have not returned; the Lease of the shard is renewed until they return or the process ends")
		go func() {
			defer renewed.Set(0)
			if err := o.awaitUnfinished(keeping, options.RetryPeriod); err != nil {
				log.Error(err, "The Lease of the shard is lost; other shards can handle the objects of daemons and timers that have not returned")
				return
			}
			_ = keeping.release(log) // nothing more can be done about an error
		}()
		return err
	case lostErr := <-keeping.lost:
		defer renewed.Set(0)
		keeping.stop()
		cancel(lostErr)
		return o.awaitEnd(ended, lease.Remaining(), lostErr)
	}
}

// awaitUnfinished waits until all daemons and timers have returned. It returns an error if the Lease is lost earlier.
func (o *Operator) awaitUnfinished(k keeping, interval time.Duration) error {
	for o.hasUnfinished() {
		select {
		case err := <-k.lost:
			k.stop()
			return err
		case <-time.After(interval):
		}
	}
	return nil
}

// keeping renews a Lease.
type keeping struct {
	ctx   context.Context // of the operator, without its cancellation
	lease *shardlease.Lease
	stop  context.CancelFunc
	lost  chan error // receives the result of Keep
}

// keepLease renews a Lease also after the end of the context, because handlers may run for some time after it.
func keepLease(ctx context.Context, lease *shardlease.Lease) keeping {
	k := keeping{ctx: context.WithoutCancel(ctx), lease: lease, lost: make(chan error, 1)}
	renewing, stop := context.WithCancel(k.ctx)
	k.stop = stop
	go func() { k.lost <- lease.Keep(renewing) }()
	return k
}

// release ends the renewals and releases the Lease. It returns an error if the Lease was lost.
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

// awaitEnd waits for a limited time until run has ended. After this time, it closes the engines, so that they write nothing. It returns the error lost, joined
// with the error of run.
func (o *Operator) awaitEnd(ended <-chan error, limit time.Duration, lost error) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-ended:
		return errors.Join(lost, err)
	case <-timer.C:
		for _, e := range o.runningEngines() {
			e.Close()
		}
		return lost
	}
}

// reserveRing reserves the ring until release is called. It returns an error if another operator of the manager is in the ring, because both operators would
// use the same Lease.
func (o *Operator) reserveRing() (release func(), err error) {
	r := reservation{o.mgr, ringKind, o.ring.Name()}
	if _, taken := reservations.LoadOrStore(r, true); taken {
		return nil, fmt.Errorf("the operator cannot start:\nWithSharding: another operator of this manager is in the ring %q: put the handlers into one operator", o.ring.Name())
	}
	return func() { reservations.Delete(r) }, nil
}

// fixedRingLabel is the label of the Leases of a ring with a fixed number of shards. The sharder ignores these Leases.
const fixedRingLabel = "kopf-runtime.dev/ring"

// leaseOptions returns the options for the Lease of the shard. The Leases have a client of their own without a rate limit, so that no other request delays the
// renewals.
func (o *Operator) leaseOptions(ctx context.Context) (shardlease.Options, error) {
	name, nameErr := o.ring.Shard()
	namespace, namespaceErr := o.ring.Namespace()
	if err := errors.Join(nameErr, namespaceErr); err != nil {
		return shardlease.Options{}, err
	}
	config := rest.CopyConfig(o.mgr.GetConfig())
	config.QPS, config.RateLimiter = -1, nil
	config.Timeout = o.lease.renewDeadline / 2
	config.ContentType = "application/json"
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return shardlease.Options{}, fmt.Errorf("creating the client for the Lease: %w", err)
	}
	identity := shardlease.Identity{Namespace: namespace, Name: name, Ring: o.ring.Name(), Total: o.ring.Total(), Instance: string(uuid.NewUUID())}
	if identity.Total > 0 {
		identity.RingLabel = fixedRingLabel
		o.warnAboutServer = sync.OnceFunc(func() {
			o.mgr.GetLogger().Info("The API server ignores shard selectors and sends the objects of all shards; the operator ignores the objects of other processes",
				"ring", o.ring.Name(), "featureGate", "ShardedListAndWatch")
		})
	} else {
		identity.RingLabel = sharding.LeaseLabel
		o.shard = &shards.Shard{Label: sharding.ShardLabel(o.ring.Name()), Name: name, Drain: sharding.DrainLabel(o.ring.Name())}
	}
	return shardlease.Options{
		Identity: identity,
		Client:   leases, Duration: o.lease.lease, RenewDeadline: o.lease.renewDeadline, RetryPeriod: o.lease.retryPeriod,
		OnRenewal: func(at time.Time) {
			metrics.ShardLeaseRenewed.WithLabelValues(o.ring.Name()).Set(float64(at.UnixMilli()) / 1000)
		},
		WallClock: testhook.WallClockOrNil(ctx), Log: o.mgr.GetLogger().WithValues("ring", o.ring.Name()),
	}, nil
}
