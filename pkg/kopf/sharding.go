package kopf

import (
	"errors"
	"fmt"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/peers"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/ring"
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
func WithSharding(of sharding.Ring) Option {
	return optionFunc(func(o *Operator) {
		if err := of.Check(); err != nil {
			o.addError(fmt.Errorf("WithSharding: %w", err))
		}
		o.kinds.Ring = ring.New(of, o.mgr, &o.lease, &o.kinds.Engines)
	})
}

// shardingMistakes returns the mistakes in the options of the ring.
func shardingMistakes(part *ring.Part, peering *peers.Part) (errs []error) {
	if part != nil && peering.HasPeers() {
		errs = append(errs, errors.New("WithSharding and WithPeering: the replicas would be peers of equal priority and pause each other: remove one of the options"))
	}
	return append(errs, part.Mistakes()...)
}

// checkSharding returns the mistakes that depend on the kinds or on the environment.
func (o *Operator) checkSharding(kinds []engine.Kind) (errs []error) {
	errs = append(errs, o.kinds.Ring.Check()...)
	for _, r := range o.resources {
		for _, related := range r.relatedKinds() {
			errs = append(errs, o.kinds.Ring.CheckRelated(related.Method, related.GVK, kinds))
		}
	}
	return errs
}
