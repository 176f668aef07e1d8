package kopf

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// leaseDurations are the durations of the leader election of the manager.
type leaseDurations struct{ lease, renewDeadline, retryPeriod time.Duration }

// defaultLease has the defaults of controller-runtime.
var defaultLease = leaseDurations{lease: 15 * time.Second, renewDeadline: 10 * time.Second, retryPeriod: 2 * time.Second}

// fenceMargin is how long the manager may take to stop the operator when it has lost the lease.
const fenceMargin = time.Second

// WithLeaseDurations passes the LeaseDuration, RenewDeadline and RetryPeriod of the manager to the operator, which cannot read them from the
// manager. It is only needed if they differ from the defaults of controller-runtime (15 s, 10 s, 2 s).
//
// A process that was suspended (SIGSTOP, a paused virtual machine, a sleeping laptop) does not know at first that another replica
// has become the leader. The operator recognises a gap of LeaseDuration - RenewDeadline (5 s) in which its process did not run.
// It then holds handlers, daemons, timers and writes for RenewDeadline + RetryPeriod + 1 s (13 s). By then, the leader
// elector has renewed the lease, or the manager has stopped the operator. The operator treats the hold as a pause: it compares its
// unwritten changes with the object, and drops them if another process has changed the object.
//
// Three zeros disable this. It has no effect if controllers are set not to need leader election.
func WithLeaseDurations(lease, renewDeadline, retryPeriod time.Duration) Option {
	return optionFunc(func(o *Operator) {
		o.lease = leaseDurations{lease, renewDeadline, retryPeriod}
		if o.lease != (leaseDurations{}) && (lease <= renewDeadline || renewDeadline <= retryPeriod || retryPeriod <= 0) {
			o.addError(fmt.Errorf("WithLeaseDurations(%s, %s, %s): each must be longer than the next, as in the options of the manager; "+
				"three zeros disable the hold after a suspension", lease, renewDeadline, retryPeriod))
		}
	})
}

// newFence returns the fence of the operator, or nil if it needs none.
func (o *Operator) newFence(ctx context.Context, peers *peering.Peering, log logr.Logger) *fencing.Fence {
	if o.lease == (leaseDurations{}) || !o.NeedLeaderElection() {
		return nil
	}
	options := fencing.Options{
		Gap:       o.lease.lease - o.lease.renewDeadline,
		HoldTime:  o.lease.renewDeadline + o.lease.retryPeriod + fenceMargin,
		WallClock: testhook.WallClock(ctx), Log: log,
	}
	if peers != nil {
		options.OtherPauses = peers
	}
	return fencing.New(options)
}

// startFence makes the engines handle a suspension as a pause.
func (o *Operator) startFence(ctx context.Context, fence *fencing.Fence, engines []*engine.Engine) (stop func()) {
	if fence == nil {
		return func() {}
	}
	namespace := ""
	if o.peers != nil && len(o.peers.Namespaces) > 0 {
		namespace = o.peers.Namespaces[0] // a change in one namespace makes the engines check all of them
	}
	return fence.Start(ctx, func() {
		for _, e := range engines {
			e.PauseChanged(namespace)
		}
	})
}
