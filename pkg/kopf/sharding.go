package kopf

import (
	"errors"
	"fmt"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/peers"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/ring"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// WithSharding distributes the operator's objects over its replicas. All replicas are active, without leader election. Each of them is a
// shard with its own Lease:
//
//	kopf.SetupWithManager(mgr, databases, kopf.WithSharding(sharding.ControllerRing("databases")))
//
// For kinds with handlers, each replica watches only its own objects. For related kinds ([Resource.Owns], [Resource.Watches],
// [Request.Track]) and for kinds with only [IndexBy], it watches all objects.
//
// With [sharding.ControllerRing], the sharder of kubernetes-controller-sharding must run in the cluster, and a ControllerRing must list the
// operator's kinds. When an object moves to a different replica, its handlers finish, its daemons and timers are stopped with
// [daemons.ErrOutOfScope], and their outcomes are written. Then the new replica resumes the object. The sharder's labels never count as
// changes. With [sharding.ServerSide], which is experimental, objects don't move.
//
// [WithLeaseDurations] sets the durations of the Lease. If a replica can't renew its Lease in time, it cancels the contexts of all
// handlers, and [Operator.Start] returns an error before other replicas can handle its objects. The process must then exit. If a replica
// crashes, the others take over its objects about one Lease duration after its last renewal if they may list Leases, and otherwise after
// two. If a user removes an object's shard label, progress that isn't written yet is lost.
//
// The operator uses its own cache: see [WithKindCaches]. With [WithPeering], set Tie to [peering.Share]. Default: no sharding.
func WithSharding(of sharding.Ring) Option {
	return optionFunc(func(o *Operator) {
		if err := of.Check(); err != nil {
			o.addError(fmt.Errorf("WithSharding: %w", err))
		}
		o.kinds.Ring = ring.New(of, o.mgr, &o.lease, &o.kinds.Engines)
	})
}

// shardingMistakes returns the mistakes in the ring's options.
func shardingMistakes(part *ring.Part, peering *peers.Part) (errs []error) {
	if part != nil && peering.HasPeers() && !peering.Shares() {
		errs = append(errs, errors.New("WithSharding and WithPeering: the replicas would be peers of equal priority and pause each other: "+
			"set Tie to peering.Share in the options of WithPeering, or remove one of the options"))
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
