package ring

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

const (
	// SharderIdentity is the holder of Leases whose shards the sharder considers dead.
	SharderIdentity = "shardlease-controller"
	// InstanceAnnotation is the annotation with the id of the process that holds the Lease.
	InstanceAnnotation = "kopf-runtime.dev/shard-process"
	// SuccessorAnnotation is the annotation with the id of a process that is waiting for the Lease. Other shards don't mark such a Lease as
	// dead.
	SuccessorAnnotation = "kopf-runtime.dev/next-shard-process"
)

// An Identity identifies a process and its Lease.
type Identity struct {
	Namespace, Name string // of the Lease
	RingLabel, Ring string // the label of the Lease
	Total           int    // the ring's fixed number of shards; 0 if it may change
	Instance        string // the id of the process
}

// A Decision is what a process does next after reading its Lease.
type Decision int

// The decisions.
const (
	Wait   Decision = iota // until the Lease changes or expires
	Create                 // the Lease does not exist
	Take                   // the Lease is free, expired, or already held by the process
)

// isHeldBy reports whether the process holds the Lease.
func (id Identity) isHeldBy(lease *coordinationv1.Lease) bool {
	return lease != nil && holder(lease) == id.Name && lease.Annotations[InstanceAnnotation] == id.Instance
}

// Decide returns what to do next about a Lease. lease is nil if it doesn't exist. first is the earliest state that was read with the
// current holder, and unchanged is how long ago that was. Decide fails if the Lease is used for a different purpose, or if another process
// of the same name keeps renewing it.
func (id Identity) Decide(lease, first *coordinationv1.Lease, unchanged time.Duration) (Decision, error) {
	switch {
	case lease == nil:
		return Create, nil
	case lease.Labels[id.RingLabel] != id.Ring:
		return Wait, fmt.Errorf("the Lease %s/%s has the label %s=%q instead of %q: its name is used for another purpose; give the shard another name, or delete the Lease",
			id.Namespace, id.Name, id.RingLabel, lease.Labels[id.RingLabel], id.Ring)
	case holder(lease) == "" || id.isHeldBy(lease):
		return Take, nil
	case holder(lease) != id.Name && holder(lease) != SharderIdentity:
		return Wait, fmt.Errorf("the Lease %s/%s is held by %q: its name is used for another purpose; give the shard another name, or delete the Lease",
			id.Namespace, id.Name, holder(lease))
	case holder(lease) == id.Name && renewed(first, lease):
		return Wait, fmt.Errorf("another process renews the Lease %s/%s: two processes are the shard %q; give each replica its own name or index, for example from the metadata of its pod",
			id.Namespace, id.Name, id.Name)
	case unchanged >= durationOf(lease):
		return Take, nil
	}
	return Wait, nil
}

// hasToAnnounce reports whether the process must announce in the Lease that it is waiting for it.
func (id Identity) hasToAnnounce(lease *coordinationv1.Lease) bool {
	_, announced := lease.Annotations[SuccessorAnnotation]
	return id.Total == 0 && holder(lease) == id.Name && !announced
}

// sameHolder reports whether two states of a Lease have the same holder.
func sameHolder(one, other *coordinationv1.Lease) bool {
	return one != nil && other != nil && holder(one) == holder(other) && one.Annotations[InstanceAnnotation] == other.Annotations[InstanceAnnotation]
}

// renewed reports whether the holder has renewed the Lease between two states. Label changes by the sharder don't count.
func renewed(first, lease *coordinationv1.Lease) bool {
	return sameHolder(first, lease) && (!first.Spec.RenewTime.Equal(lease.Spec.RenewTime) || !first.Spec.AcquireTime.Equal(lease.Spec.AcquireTime))
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// defaultDuration is what the sharder uses for a Lease without a duration.
const defaultDuration = 15 * time.Second

func durationOf(lease *coordinationv1.Lease) time.Duration {
	if lease.Spec.LeaseDurationSeconds == nil {
		return defaultDuration
	}
	return time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
}

func transitionsOf(lease *coordinationv1.Lease) int32 {
	if lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return *lease.Spec.LeaseTransitions
}
