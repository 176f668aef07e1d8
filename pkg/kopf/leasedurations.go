package kopf

import (
	"fmt"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/operator"
)

// WithLeaseDurations passes the manager's LeaseDuration, RenewDeadline and RetryPeriod to the operator, which can't read them from the
// manager. Use it if they differ from the defaults of controller-runtime (15 s, 10 s, 2 s).
//
// When a suspended process continues (after SIGSTOP, in a virtual machine or on a laptop), a different replica may already be the leader.
// So if the process didn't run for LeaseDuration - RenewDeadline (5 s), the operator pauses handlers, daemons, timers and writes for
// RenewDeadline + RetryPeriod + 1 s (13 s). By then, the leader elector will have renewed the lease, or the manager will have stopped the
// operator. After the pause, the operator discards its unwritten changes to objects that a different process has changed.
//
// Three zeros disable this detection. With [WithSharding], the option sets the durations of the shard's Lease, which must not be zero, and
// the operator also pauses if the Lease was not renewed for RenewDeadline. Without WithSharding, the option has no effect if
// NeedLeaderElection is false in the manager's controller options.
func WithLeaseDurations(lease, renewDeadline, retryPeriod time.Duration) Option {
	return optionFunc(func(o *Operator) {
		o.lease = operator.LeaseDurations{Lease: lease, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod}
		if o.lease != (operator.LeaseDurations{}) && (lease <= renewDeadline || renewDeadline <= retryPeriod || retryPeriod <= 0) {
			o.addError(fmt.Errorf("WithLeaseDurations(%s, %s, %s): each must be longer than the next, as in the options of the manager; "+
				"three zeros disable the detection of suspensions", lease, renewDeadline, retryPeriod))
		}
	})
}
