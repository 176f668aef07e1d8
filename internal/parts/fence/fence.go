package fence

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/suspension"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// margin is how long the manager may take to stop the operator after losing the lease.
const margin = time.Second

// New returns the fence of an operator with leader election or a shard, or nil if the detection of suspensions is disabled. peers is nil
// without peering. overdue reports whether the shard's Lease was not renewed in time, and is nil without a shard.
func New(ctx context.Context, lease operator.LeaseDurations, peers *peering.Peering, overdue func() bool, log logr.Logger) *suspension.Fence {
	if lease == (operator.LeaseDurations{}) {
		return nil
	}
	options := suspension.Options{
		Gap:       lease.Lease - lease.RenewDeadline,
		HoldTime:  lease.RenewDeadline + lease.RetryPeriod + margin,
		WallClock: testhook.WallClockOrNil(ctx), Log: log, Overdue: overdue,
	}
	if peers != nil {
		options.OtherPauses = peers
	}
	return suspension.New(options)
}

// Start starts the fence, unless it is nil. Until stop is called, the engines treat a suspension as a pause. namespace is any one that can
// be paused, because a change in one makes the engines check all of them.
func Start(ctx context.Context, fence *suspension.Fence, engines *operator.Set[*engine.Engine], namespace string) (stop func()) {
	if fence == nil {
		return nil
	}
	return fence.StartHeartbeat(ctx, func() {
		for _, e := range engines.All() {
			e.PauseChanged(namespace)
		}
	})
}
