// Package sharding distributes an operator's objects over its replicas, which are called shards.
//
// [ControllerRing] implements the protocol of [kubernetes-controller-sharding], whose sharder assigns each object to one shard:
//
//	kopf.SetupWithManager(mgr, databases, kopf.WithSharding(sharding.ControllerRing("databases")))
//
// The ring is a ControllerRing object in the cluster that lists the sharded resources. Each shard renews a Lease with the label
// [LeaseLabel]. The sharder adds the label [ShardLabel] to each object, and a shard watches only the objects with its name in this label.
//
// To move an object, the sharder adds the label [DrainLabel]. The shard then starts no new work for the object, and waits until handlers,
// daemons and timers have returned. Then it writes their outcomes, and removes both labels in one request. If a shard's Lease has expired,
// the sharder moves its objects without waiting.
//
// [ServerSide] is an experimental alternative without a sharder: the API server sends each shard only the objects in its range of hashes.
//
// [kubernetes-controller-sharding]: https://github.com/timebertt/kubernetes-controller-sharding
package sharding
