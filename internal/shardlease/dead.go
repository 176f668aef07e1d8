package shardlease

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// An observation is the first state of a Lease that a process has read, and the time at which it was read.
type observation struct {
	first      *coordinationv1.Lease
	since      time.Time // on the monotonic clock
	markFailed bool      // an attempt to mark the Lease has failed
}

// MarkDeadShards marks the Leases of other dead shards of the ring until the context is cancelled. The sharder then moves their objects immediately.
//
// A shard is dead if it has not renewed its Lease for the duration of the Lease, measured with the monotonic clock of this process. MarkDeadShards reads the
// Leases every half retry period, at least every second. The sharder itself marks a Lease only after two durations, because it compares its wall clock with
// the clock of the shard. MarkDeadShards ignores the Leases of other implementations of the protocol, whose durations can have another meaning, and Leases for
// which another process with the same name waits.
func MarkDeadShards(ctx context.Context, options Options) {
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

// listRing returns the Leases of the ring. resourceVersion "0" permits an older state.
func (o *Options) listRing(ctx context.Context, resourceVersion string) ([]coordinationv1.Lease, error) {
	list, err := o.Client.Leases(o.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{o.RingLabel: o.Ring}.String(), ResourceVersion: resourceVersion,
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// canMarkDead reports whether a Lease is held by another shard, and this process can detect the death of the shard.
func (id Identity) canMarkDead(lease *coordinationv1.Lease) bool {
	_, hasSuccessor := lease.Annotations[SuccessorAnnotation]
	return lease.Name != id.Name && holder(lease) == lease.Name && lease.Annotations[InstanceAnnotation] != "" && !hasSuccessor
}

// markDead writes the sharder as the holder into a Lease, as the sharder does. It returns a conflict if the shard has renewed the Lease.
func (o *Options) markDead(ctx context.Context, lease *coordinationv1.Lease) error {
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
