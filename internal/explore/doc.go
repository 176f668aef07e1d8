// Package explore runs a scenario with an operator once without faults. From this run, it derives plans of faults. It then runs the
// scenario again under each plan, and compares each run with the first one.
//
//	report := explore.Explore(t, runner, explore.Options{Pairs: true})
//	for _, v := range report.Violations {
//		t.Errorf("%s: %s", v.Plan, v.Text)
//	}
//
// # Concepts
//
// A [Runner] runs the scenario once under the faults of a [Plan]. It returns a [Run] with the writes, watch events, changes, calls and
// quiet states in order. Package kopftest implements the runner, so this package depends neither on operators nor on servers.
//
// A write is a request of the operator, except for reads and requests about Events. A change is a new version of an object in the store, or
// its deletion, by any client. A watch event is an event of a watch after the initial list. Writes, changes, watch events and calls are
// numbered from 1.
//
// [Plans] derives these plans from the reference run, and leaves out those that can't have an effect:
//
//   - for each write: a crash before it, a crash after it, a lost response, an unavailable server, a conflict;
//   - for each crash and each earlier change: a restart whose first list is as old as that change;
//   - for each watch event that a later event of the same object supersedes: a delay of at most 20 seconds. If the later event arrives in
//     that time, the operator receives one event for both.
//
// A [Report] contains the violations: differences in the objects or in the external state, and handlers that were called again although
// their outcome was written. It is also a violation if the operator doesn't become quiet, or if it keeps writing in the hour after the last
// step.
//
// # Caveats
//
// The order of goroutines differs from run to run, so write 7 of a run can be a different one than write 7 of the reference run. This
// doesn't cause false violations, because each rule must hold after a fault at any write. It may, however, take several runs of a plan to
// reproduce a violation.
package explore
