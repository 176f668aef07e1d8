package kopf

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// leaseDurations contains the durations of the leader election of the manager, or of the Lease of a shard.
type leaseDurations struct{ lease, renewDeadline, retryPeriod time.Duration }

// defaultLease contains the defaults of controller-runtime.
var defaultLease = leaseDurations{lease: 15 * time.Second, renewDeadline: 10 * time.Second, retryPeriod: 2 * time.Second}

// fenceMargin is the time that the manager may need to stop the operator after the manager has lost the lease.
const fenceMargin = time.Second

// WithLeaseDurations passes the LeaseDuration, RenewDeadline and RetryPeriod of the manager to the operator, which cannot read them from the
// manager. Use the option if they differ from the defaults of controller-runtime (15 s, 10 s, 2 s).
//
// When a suspended process continues (after SIGSTOP, in a virtual machine or on a laptop), another replica may have become the leader. The
// operator detects that its process did not run for LeaseDuration - RenewDeadline (5 s). It then pauses handlers, daemons, timers and writes
// for RenewDeadline + RetryPeriod + 1 s (13 s). During this time, the leader elector renews the lease, or the manager stops the operator.
// After the pause, the operator discards its unwritten changes to each object that another process has changed.
//
// Three zeros disable the detection of suspensions. With [WithSharding], the option sets the durations of the shard's Lease, which must not be zero.
// The operator then also pauses if the Lease was not renewed for RenewDeadline.
// Without WithSharding, the option has no effect if NeedLeaderElection of the manager's controller options is false.
func WithLeaseDurations(lease, renewDeadline, retryPeriod time.Duration) Option {
	return optionFunc(func(o *Operator) {
		o.lease = leaseDurations{lease, renewDeadline, retryPeriod}
		if o.lease != (leaseDurations{}) && (lease <= renewDeadline || renewDeadline <= retryPeriod || retryPeriod <= 0) {
			o.addError(fmt.Errorf("WithLeaseDurations(%s, %s, %s): each must be longer than the next, as in the options of the manager; "+
				"three zeros disable the detection of suspensions", lease, renewDeadline, retryPeriod))
		}
	})
}

// newFence returns the fence that detects suspensions. It returns nil if the detection is disabled, or if the operator has neither leader election nor a
// shard.
func (o *Operator) newFence(ctx context.Context, peers *peering.Peering, log logr.Logger) *fencing.Fence {
	if o.lease == (leaseDurations{}) || !o.NeedLeaderElection() && o.ring == nil {
		return nil
	}
	options := fencing.Options{
		Gap:       o.lease.lease - o.lease.renewDeadline,
		HoldTime:  o.lease.renewDeadline + o.lease.retryPeriod + fenceMargin,
		WallClock: testhook.WallClockOrNil(ctx), Log: log,
	}
	if peers != nil {
		options.OtherPauses = peers
	}
	if lease := o.shardLease.Load(); lease != nil {
		options.Overdue = lease.IsOverdue
	}
	return fencing.New(options)
}

// startFence starts the fence if it is not nil. Until stop is called, the engines handle a suspension as a pause.
func (o *Operator) startFence(ctx context.Context, fence *fencing.Fence) (stop func()) {
	if fence == nil {
		return func() {}
	}
	namespace := o.pausedScopes()[0] // a change in one namespace makes the engines check all of them
	return fence.StartHeartbeat(ctx, func() {
		for _, e := range o.runningEngines() {
			e.PauseChanged(namespace)
		}
	})
}
