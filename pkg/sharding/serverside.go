package sharding

import (
	"errors"
	"fmt"
	"math/bits"

	shardselector "k8s.io/apimachinery/pkg/sharding"
)

// ServerSide returns a [Ring] with a fixed number of shards. The hashes of UIDs are divided into total ranges, and this process handles the
// objects whose hash is in the range with this index, starting with 0. The API server sends it only these objects. There is no sharder,
// objects don't get labels, and they never move. Pass the result to kopf.WithSharding.
//
// Run a StatefulSet with total replicas, and use the pod's ordinal as the index. Each process needs a different index. Its Lease is named
// after the ring and the index, for example "databases-0".
//
// To change total, stop all processes first. A process with a different total waits until the Leases of the stopped processes have expired.
// If one of these Leases is renewed, the new process stops with an error. Objects whose hash belongs to an index without a process aren't
// handled.
//
// ServerSide is experimental, because shard selectors are an alpha feature of Kubernetes 1.36 and later (KEP-5866). The API server needs
// the feature gate ShardedListAndWatch. Without it, the API server sends all objects, so the operator logs a warning and ignores the
// objects of other processes.
func ServerSide(name string, index, total int, options ...Option) Ring {
	r := Ring{name: name, index: index, total: total}
	r.configure("ServerSide", options)
	switch {
	case total < 1:
		r.errs = append(r.errs, fmt.Errorf("ServerSide(%q): total must be positive, got %d: pass the number of replicas", name, total))
	case index < 0 || index >= total:
		r.errs = append(r.errs, fmt.Errorf("ServerSide(%q): the index must be between 0 and %d, got %d: pass the ordinal of the pod, and as total the number of replicas", name, total-1, index))
	}
	if r.shard != "" {
		r.errs = append(r.errs, errors.New("ShardName is not possible with ServerSide, whose shards are named after their index: remove the option"))
	}
	return r
}

// Total returns the number of shards of [ServerSide]. It returns 0 for a [ControllerRing].
func (r Ring) Total() int { return r.total }

// Selector returns the shard selector for the objects that this process handles, or nil for a [ControllerRing]. The ring must be valid, see
// [Ring.Check].
func (r Ring) Selector() shardselector.Selector {
	if r.total == 0 {
		return nil
	}
	return shardselector.NewSelector(shardselector.ShardRangeRequirement{Key: "object.metadata.uid", Start: bound(r.index, r.total), End: bound(r.index+1, r.total)})
}

// bound returns the lower bound of a range of hashes: index/total of 2^64.
func bound(index, total int) string {
	if index == total {
		return "0x10000000000000000"
	}
	quotient, _ := bits.Div64(uint64(index), 0, uint64(total))
	return fmt.Sprintf("0x%016x", quotient)
}
