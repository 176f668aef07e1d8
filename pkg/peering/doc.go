// Package peering coordinates operators through a shared peering object, as kopf does: the operator with the highest priority works, and
// all others pause. For example, when a developer starts an operator on a laptop, the one in the cluster pauses until the one on the laptop
// stops. Package kopf is built on it, but you can use it in any reconciler:
//
//	p, err := peering.New(mgr, peering.Options{Priority: 100})
//	...
//	gate := p.Gate(reconciler)
//	err = errors.Join(mgr.Add(p), mgr.AddReadyzCheck("peering", p.Readyz),
//		ctrl.NewControllerManagedBy(mgr).For(&v1.Database{}).WatchesRawSource(gate).Complete(gate))
//
// # Concepts
//
// The peering object is a ClusterKopfPeering, or a KopfPeering in each served namespace. The operator uses an object in the API group
// kopf.dev and, if the API server serves zalando.org, one in that group as well. Each operator writes a [Record] into the status of the
// object, and renews it before it expires. The records have kopf's format, so operators in Python are peers, too.
//
// A [Peering] is the runnable that writes the record and watches those of the peers. [Observations] stores when each record last changed,
// and [Self.Decide] decides which peers are alive and have precedence. If a peer has precedence, the operator is paused: see
// [Peering.Paused], [Peering.Changed] and [Peering.Subscribe]. A [Gate] defers reconcile requests until the pause ends.
//
// A [Client] lists, freezes and resumes operators for commands such as cmd/kopf.
//
// # Guarantees
//
//   - If the peering object exists, the operator is paused until it has written its record and read those of its peers. So if two operators
//     start at the same time, at least one of them sees the other.
//   - A peer that renews its record is alive, even if its clock differs by up to ten minutes ([MaxSkew]). It is considered dead if it
//     doesn't renew its record within the record's lifetime, but not while the operator can't read the object.
//   - An operator that can't renew its record in time pauses, because peers may consider it dead. After the machine was suspended, it
//     pauses within two seconds and resumes once it has renewed its record.
//   - The operator renews its record once per lifetime, five to ten seconds before it expires. While paused, it also does so when the
//     record of a blocking peer expires. To read the records, it lists and watches the peering object.
//   - The operator ignores unreadable records and doesn't remove them.
//   - At shutdown, the operator removes its record. It waits at most two seconds for the API server.
//
// # Assumptions
//
// Running operators have unique identities, unless leader election lets only one of them run. The operator has the permissions in
// config/rbac.
//
// # Caveats
//
// Running reconciles continue when a pause starts, so two operators can briefly process the same object. The operator removes its record
// when shutdown starts, without waiting for its last reconcile.
//
// Operators in Python compare their clocks with the times in records. If such an operator's clock is more than five seconds ahead, it can
// consider an operator in Go dead. Operators in Go log a warning if a peer's clock is more than ten seconds ahead.
//
// The record of a killed process pauses a successor with the same priority until it expires, unless both have the same identity. An
// operator that starts within ten minutes after that treats the record as alive for up to one more lifetime, because clocks can differ.
//
// # Errors
//
// [Options.Check] returns all errors in the options. Failed requests are retried without limit. [Peering.Readyz], [Peering.Describe] and
// the log report the failure, including the RBAC rule if a permission is missing, and the manifest if a mandatory object is. Pauses show up
// in the metric kopf_paused and in Events about the peering object. The metric kopf_peers is the number of live peers.
package peering
