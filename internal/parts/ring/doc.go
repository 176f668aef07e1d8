// Package ring runs an operator as one shard of a ring. It holds the shard's Lease and selects the objects of this process.
//
// [AcquireLease] takes the Lease in the form that the sharder of kubernetes-controller-sharding expects, where the Lease's name is the
// holder identity. All processes of a shard share this identity, so the Lease is also annotated with a random id of the process. A process
// that finds someone else's Lease waits until it hasn't changed for its duration. It measures this with its own clock and never compares it
// with the renew time, because clocks differ between machines. If the Lease is renewed meanwhile, two processes have the same name, and
// AcquireLease fails.
//
// In a ring with a fixed number of shards, this number is a label of the Lease. Processes with different numbers are mutually exclusive.
//
// The holder must stop all work when [Lease.Keep] returns an error.
package ring
