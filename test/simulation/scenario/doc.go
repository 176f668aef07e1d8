// Package scenario runs random scenarios against an operator, and checks what must hold whatever happens: that
// no change is lost and nothing is done twice.
//
//	plan := scenario.NewPlan(seed, time.Second, 0)
//	report := scenario.Run(ctx, scenario.Environment{Config: config, Namespace: "ns", Tick: time.Second}, plan)
//	if bad := report.Unexpected(false); len(bad) > 0 {
//		t.Errorf("%v\n%s", bad, report)
//	}
//
// # Flow
//
// A [Plan] is drawn from a seed: a kind, some handlers that take their time, fail, and change their objects, a
// list of edits and crashes, and the faults of the wire. [Run] starts a manager with these handlers on an API
// server, which may be simulated (in virtual time) or real, takes the steps, and waits until all is quiet.
// On the way of the operator there is a link, which lags, fails, loses answers, and is cut by a crash.
// What it writes is seen on this way, so that each call of a handler can be held against what the server has.
//
// # Guarantees
//
// The plan follows from the seed alone. What happens in a run depends also on the order in which goroutines
// run, so that a failure may take some replays to come back.
//
// # Assumptions
//
// The kinds are those of the end-to-end suites. The namespace has no other objects of them.
//
// # Caveats
//
// Users write other fields than handlers, but for one list: so what is lost can be told without doing the
// arithmetic of the engine once more. See [State].
//
// # Errors
//
// Whatever is wrong is a [Violation] of a [Property] in the report; the log of all steps is in there, too.
package scenario
