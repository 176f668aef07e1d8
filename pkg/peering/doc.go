// Package peering coordinates operators through a shared peering object, as kopf does: the operator with the highest
// priority works, and all others pause. For example, a developer starts an operator on a laptop, and the operator in the
// cluster pauses until the operator on the laptop stops. Package kopf uses this package. Other reconcilers can use it, too:
//
//	p, err := peering.New(mgr, peering.Options{Priority: 100})
//	...
//	gate := p.Gate(reconciler)
//	err = errors.Join(mgr.Add(p), mgr.AddReadyzCheck("peering", p.Readyz),
//		ctrl.NewControllerManagedBy(mgr).For(&v1.Database{}).WatchesRawSource(gate).Complete(gate))
//
// # Concepts
//
// The peering object is a ClusterKopfPeering, or a KopfPeering in each served namespace. The operator uses an object in the API
// group kopf.dev and, if the API server serves zalando.org, also one in this group. Each operator writes a [Record] into the
// status of the object, and renews the record before its lifetime ends. The records have the format of kopf, so operators in
// Python are peers as well.
//
// A [Peering] is the runnable that writes the record and watches the records of the peers. [Observations] stores the time at
// which each record last changed, and [Self.Decide] decides which peers are alive and have precedence. If a peer has
// precedence, the operator is paused: see [Peering.Paused], [Peering.Changed] and [Peering.Subscribe]. A [Gate] defers
// reconcile requests until the pause ends.
//
// A [Client] lists, freezes and resumes operators for commands such as cmd/kopf.
//
// # Guarantees
//
//   - If the peering object exists, the operator is paused until it has written its record and read the records of its peers.
//     If two operators start at the same time, at least one of them observes the other.
//   - A peer that renews its record is alive, even if its clock differs by up to ten minutes ([MaxSkew]). The operator considers a
//     peer dead if the peer does not renew its record within the record's lifetime. The operator does not declare peers dead
//     while it cannot read the object.
//   - An operator that cannot renew its record during its lifetime pauses, because peers may declare it dead. After the machine
//     was suspended, the operator pauses within two seconds and resumes after it has renewed its record.
//   - The operator renews its record once per lifetime, five to ten seconds before the lifetime ends. A paused operator also renews it when the record of a
//     blocking peer expires. To read the records, the operator lists and watches the peering object.
//   - The operator ignores unreadable records and does not remove them.
//   - At shutdown, the operator removes its record. It waits at most two seconds for the API server.
//
// # Assumptions
//
// The identities of running operators are unique, unless leader election permits only one of them to run. The operator has
// the permissions in config/rbac.
//
// # Caveats
//
// Running reconciles continue when a pause begins, so two operators can briefly process one object. The operator removes its
// record when shutdown begins, and does not wait for its last reconcile.
//
// Operators in Python compare their clocks with the times in records. If the clock of such an operator is more than five seconds
// ahead, the operator can consider an operator in Go dead. An operator in Go logs a warning if the clock of a peer is more than ten
// seconds ahead.
//
// The record of a killed process pauses a successor with the same priority until the record expires, unless both have the same
// identity. An operator that starts within ten minutes after the expiry treats the record as alive for up to one more lifetime,
// because clocks may differ.
//
// # Errors
//
// [Options.Check] returns all errors in the options. If a request fails later, the Peering retries it without limit. [Peering.Readyz],
// [Peering.Describe] and the log report the failure, including the rule for a missing permission and the manifest of a missing mandatory object.
// The metric kopf_paused and Events about the peering object report pauses. The metric kopf_peers reports the number of live peers.
package peering
