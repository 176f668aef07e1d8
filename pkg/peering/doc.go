// Package peering lets operators know of each other: of those that share a peering object, the one with the highest
// priority works, and the others pause. A developer starts an operator on a laptop, and the one in the cluster steps
// back until the laptop has gone. It is what package kopf stands on, and of use without it, for any reconciler:
//
//	p, err := peering.New(mgr, peering.Options{Priority: 100})
//	...
//	gate := p.Gate(reconciler)
//	err = errors.Join(mgr.Add(p), mgr.AddReadyzCheck("peering", p.Readyz),
//		ctrl.NewControllerManagedBy(mgr).For(&v1.Database{}).WatchesRawSource(gate).Complete(gate))
//
// # Flow
//
// A [Peering] is a runnable of the manager. It writes a [Record] of the operator into the status of the peering object,
// then again before its lifetime is over, and looks at the records of the others: in what it is answered, and
// by a watch. [Sightings] remember since when a record has been as it is, [Self.Judge] concludes who is alive and
// has precedence. While somebody has, the operator is paused: [Peering.Paused] tells, [Peering.Changed] and
// [Peering.Subscribe] say when it changes, and a [Gate] holds requests back until then.
//
// The object is a ClusterKopfPeering, or for operators of namespaces a KopfPeering in each, of kopf.dev and, where
// that is served, of zalando.org. The records are those of kopf, so operators in Python are peers like any others.
// A [Client] is for people: it lists, freezes and resumes operators, as the command cmd/kopf does.
//
// # Guarantees
//
// Nothing is done before the first look, whose answer shows our own record beside those of the others: of two operators
// that start at one moment, one at least sees the other. A peer that writes its record is alive, whatever the clocks say
// within ten minutes of difference ([MaxSkew]); one that does not is dead after its lifetime. A peer that we could not
// look at is not taken for dead. An operator that cannot write its record for its lifetime pauses, as the others
// may take it for dead; one whose machine has slept meanwhile does so within a second or two of waking, until its next
// record is written.
//
// A sign of life is one write for each lifetime, less five to ten seconds; looks cost none. A record that is not
// understood is left alone, and in nobody's way. At the end the record is removed, within two seconds.
//
// # Assumptions
//
// Identities are unique among operators that run at a time, or a lease makes sure that only one of them does.
// Watches and writes are allowed, see config/rbac.
//
// # Caveats
//
// What has begun when a pause begins goes on, so there are moments at which two operators work on one object. The
// record is removed when the operator is told to stop, not when its last call has returned. Operators in Python
// go by their clocks: one whose clock is wrong by more than the lifetime takes us for dead, whatever we do; it is told in
// the log if we see it. A record of an earlier process of ours, one that was killed, has to die first, unless
// both had the same identity. What was written by hand, with a lifetime of an hour, say, and is seen by an operator
// that is started in the meantime, counts up to ten minutes longer there, as clocks may differ.
//
// # Errors
//
// [Options.Validate] tells all mistakes before the start. What fails later is tried again for ever, and is told by
// [Peering.Readyz], [Peering.Describe], and in the log: a permission that is missing with the rule that grants it, a mandatory
// object that is missing with what to create. The metrics kopf_paused and kopf_peers, and Events on the peering object,
// show pauses.
package peering
