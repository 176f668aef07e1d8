// Package scenario runs random scenarios against an operator and checks the properties that must always hold: the
// operator loses no change and repeats no work.
//
//	plan := scenario.NewPlan(seed, time.Second, 0)
//	report := scenario.Run(ctx, scenario.Environment{Config: config, Namespace: "ns", Tick: time.Second}, plan)
//	if bad := report.Unexpected(); len(bad) > 0 {
//		t.Errorf("%v\n%s", bad, report)
//	}
//
// NewPlan generates a [Plan] from a seed. The plan contains a kind, handlers, edits, crashes and network faults. [Run]
// starts a manager with these handlers on an API server, which is simulated (in virtual time) or real. It runs the
// steps and waits until the operator is quiet. A transport between the operator and the server delays and fails
// requests, loses responses, and ends at a crash. It also records the writes of the operator, so that each call of a
// handler can be compared with the stored state.
//
// The seed determines the plan. A run also depends on the order of goroutines, so a failure may need some repetitions.
//
// The kinds are those of the end-to-end suites, and the namespace must not have other objects of these kinds. Users and
// handlers write different fields, except for one list, so that checks can detect lost changes without the algorithms
// of the engine. See [State].
//
// The report contains each [Violation] of a [Property], and the log of all steps.
package scenario
