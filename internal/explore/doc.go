// Package explore runs a story with an operator once without faults, makes a plan for each fault that can happen on the way, and
// compares what comes of each plan with the first run.
//
//	report := explore.Explore(t, runner, explore.Options{Pairs: true})
//	for _, v := range report.Violations {
//		t.Errorf("%s: %s", v.Plan, v.Text)
//	}
//
// # Concepts
//
// A [Runner] runs the story once, under the faults of a [Plan], and returns a [Run]: the writes, notices, changes, calls and scenes, in
// order. The package kopftest has the runner; this package knows neither operators nor servers.
//
// A write is a request of the operator that changes something. A change is a new version of an object in the store, by any client. A
// notice is an event that a watch delivers to the operator after its first list. All are numbered from 1.
//
// [Plans] enumerates the plans that follow from a reference run, without those that can have no effect:
//
//   - for each write: a crash before it, a crash after it, a lost answer, an unavailable server, a conflict;
//   - for each crash and each earlier change: a restart whose first list is as old as that change;
//   - for each notice that a later one of the same object overwrites: the operator does not see it.
//
// [Report] has what was found. A violation is a difference in the objects or in the outside state at rest, a handler that is
// called again although its outcome was written, an operator that does not come to rest, or one that does not stay there.
//
// # Caveats
//
// The order of goroutines differs from run to run, so write 7 of a run need not be write 7 of the reference run. The rules hold for any
// write, so that this costs no false alarm, but a plan may have to be run some times to fail again.
package explore
