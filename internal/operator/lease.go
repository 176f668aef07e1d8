package operator

import "time"

// LeaseDurations are the durations of the leader election of the manager, or of the Lease of a shard. The zero value disables the detection of suspensions.
type LeaseDurations struct{ Lease, RenewDeadline, RetryPeriod time.Duration }

// DefaultLease contains the defaults of controller-runtime.
var DefaultLease = LeaseDurations{Lease: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
