// Package explore runs a scenario with an operator once without faults. It derives plans of faults from this run, runs
// the scenario again under each plan, and compares each run with the first run.
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
// A write is a request of the operator that is neither a read nor about Events. A change is a new version of an object in the store, or its deletion, by any client. A
// watch event is an event of a watch after the initial list. Writes, changes, watch events and calls are numbered from 1.
//
// [Plans] derives these plans from the reference run, without plans that can have no effect:
//
//   - for each write: a crash before it, a crash after it, a lost response, an unavailable server, a conflict;
//   - for each crash and each earlier change: a restart whose first list is as old as that change;
//   - for each watch event that a later event of the same object supersedes: a delay of at most 20 seconds. If the later event arrives during this
//     time, the operator receives one event for both.
//
// A [Report] contains the violations. A violation is a difference in the objects or in the external state, or a
// repeated handler call although its outcome was written. It is also a violation if the operator does not become quiet,
// or if it continues to write in the hour after the last step.
//
// # Caveats
//
// The order of goroutines differs from run to run, so write 7 of a run can differ from write 7 of the reference run.
// Each rule must hold after a fault at any write, so this difference causes no false violations. To reproduce a
// violation, it may be necessary to run its plan several times.
package explore
