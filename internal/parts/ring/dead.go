package ring

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// An observation is the first state of a Lease that the process has read, and when that was.
type observation struct {
	first      *coordinationv1.Lease
	since      time.Time // on the monotonic clock
	markFailed bool      // marking the Lease has failed before
}

// MarkDeadShards marks the Leases of dead shards in the ring until the context is cancelled, so that the sharder moves their objects
// immediately.
//
// A shard is dead if it hasn't renewed its Lease for the Lease's duration, as measured with this process's monotonic clock. MarkDeadShards
// reads the Leases every half retry period, but at least every second. The sharder would take two durations, because it compares its own
// wall clock with the shard's. Two kinds of Leases are skipped: those of other implementations of the protocol, where the duration can mean
// something else, and those that a different process of the same name is waiting for.
func MarkDeadShards(ctx context.Context, options LeaseOptions) {
	if options.WallClock == nil {
		options.WallClock = time.Now
	}
	interval := min(options.RetryPeriod/2, time.Second)
	observed := map[string]observation{}
	lastRead, failing := time.Now(), false
	for pause := interval; sleep(ctx, pause); {
		leases, err := options.listRing(ctx, "0")
		if err != nil {
			if !failing && ctx.Err() == nil {
				options.Log.Error(err, "Failed to list the Leases of the ring; only the sharder detects dead shards until the operator can list them", "ring", options.Ring)
			}
			failing, pause = true, options.RetryPeriod
			continue
		}
		now := time.Now()
		if now.Sub(lastRead) > pause+options.RetryPeriod {
			clear(observed) // after a suspension or an outage, the other shards need time to renew their Leases
		}
		lastRead, failing, pause = now, false, interval
		earlier := observed
		observed = map[string]observation{}
		for i := range leases {
			lease := &leases[i]
			if !options.canMarkDead(lease) {
				continue
			}
			seen := earlier[lease.Name]
			if !sameHolder(seen.first, lease) || renewed(seen.first, lease) {
				seen = observation{first: lease, since: now}
			}
			observed[lease.Name] = seen
			remaining := durationOf(lease) - now.Sub(seen.since)
			if remaining > 0 {
				pause = min(pause, remaining)
				continue
			}
			err := options.markDead(ctx, lease)
			if err != nil && ctx.Err() == nil && !seen.markFailed && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				options.Log.Error(err, "Failed to mark the Lease of a dead shard; retrying", "lease", lease.Name)
				seen.markFailed = true
				observed[lease.Name] = seen
			}
		}
	}
}

// listRing returns the ring's Leases. With resourceVersion "0", they may be older.
func (o *LeaseOptions) listRing(ctx context.Context, resourceVersion string) ([]coordinationv1.Lease, error) {
	list, err := o.Client.Leases(o.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{o.RingLabel: o.Ring}.String(), ResourceVersion: resourceVersion,
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// canMarkDead reports whether a Lease is held by a different shard, and this process can find out that it is dead.
func (id Identity) canMarkDead(lease *coordinationv1.Lease) bool {
	_, hasSuccessor := lease.Annotations[SuccessorAnnotation]
	return lease.Name != id.Name && holder(lease) == lease.Name && lease.Annotations[InstanceAnnotation] != "" && !hasSuccessor
}

// markDead makes the sharder the holder of a Lease, as the sharder itself would. It returns a conflict if the shard has renewed the Lease.
func (o *LeaseOptions) markDead(ctx context.Context, lease *coordinationv1.Lease) error {
	now, duration := metav1.NewMicroTime(o.WallClock()), durationOf(lease)
	dead := lease.DeepCopy()
	dead.Spec.HolderIdentity = new(SharderIdentity)
	dead.Spec.LeaseDurationSeconds = new(int32((2 * duration).Seconds()))
	dead.Spec.AcquireTime, dead.Spec.RenewTime = &now, &now
	dead.Spec.LeaseTransitions = new(transitionsOf(lease) + 1)
	if _, err := o.Client.Leases(o.Namespace).Update(ctx, dead, metav1.UpdateOptions{}); err != nil {
		return err
	}
	o.Log.Info("Marked the Lease of a dead shard; the sharder can move the objects of the shard", "lease", lease.Name, "duration", duration.String())
	return nil
}
