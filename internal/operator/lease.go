package operator

import "time"

// LeaseDurations are the durations of the manager's leader election or of a shard's Lease. The zero value disables the detection of
// suspensions.
type LeaseDurations struct{ Lease, RenewDeadline, RetryPeriod time.Duration }

// DefaultLease has controller-runtime's defaults.
var DefaultLease = LeaseDurations{Lease: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
