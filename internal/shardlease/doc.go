// Package shardlease acquires and renews the Lease of a shard, in the form that the sharder of kubernetes-controller-sharding expects: the name of the Lease is the
// holder identity.
//
// Because all processes of a shard have this identity, the Lease also has an annotation with a random id of its process. A process that finds the Lease of another
// process waits until the Lease has not changed for its duration. It measures this time with its own clock, and never compares the renew time with its clock: the clocks
// of machines differ. If the Lease is renewed in the meantime, two processes have one name, and [Acquire] fails.
//
// In a ring with a fixed number of shards, the Lease has this number in a label. Processes with different numbers exclude each other.
//
// The holder must stop all work when [Lease.Keep] returns an error.
package shardlease
