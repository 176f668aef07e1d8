// Package explore runs a scenario with an operator once without faults. It derives a plan for each possible fault
// from this run, and compares the result of each plan with the first run.
//
//	report := explore.Explore(t, runner, explore.Options{Pairs: true})
//	for _, v := range report.Violations {
//		t.Errorf("%s: %s", v.Plan, v.Text)
//	}
//
// # Concepts
//
// A [Runner] runs the scenario once under the faults of a [Plan]. It returns a [Run] with the writes, watch events, changes, calls and quiet states in
// order. Package kopftest implements the runner. This package depends neither on operators nor on servers.
//
// A write is a request of the operator that changes something. A change is a new version of an object in the store, by any client. A
// watch event is an event that the operator receives after its first list. Writes, changes and watch events are numbered from 1.
//
// [Plans] enumerates the plans that follow from a reference run, without those that can have no effect:
//
//   - for each write: a crash before it, a crash after it, a lost response, an unavailable server, a conflict;
//   - for each crash and each earlier change: a restart whose first list is as old as that change;
//   - for each watch event that a later event of the same object supersedes: the operator does not receive it.
//
// A [Report] contains the violations. A violation is a difference in the objects or in the external state, or a
// repeated handler call although its outcome was written. An operator that does not become quiet, or that writes
// again later, is also a violation.
//
// # Caveats
//
// The order of goroutines differs from run to run, so write 7 of a run can differ from write 7 of the reference run.
// The rules hold for every write, so this causes no false violations. To reproduce a violation, it may be necessary
// to run its plan several times.
package explore
