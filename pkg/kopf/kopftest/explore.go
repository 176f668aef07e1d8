package kopftest

import (
	"cmp"
	"fmt"
	"os"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/explore"
)

// An ExploreOption configures [Explore].
type ExploreOption func(*explore.Options)

// WithPairs adds plans of two faults. Their number grows with the square of the number of writes, so use it for short scenarios.
func WithPairs() ExploreOption {
	return func(o *explore.Options) { o.Pairs = true }
}

// WithMaxPlans limits how many plans are run. They are spread evenly over all plans, and each test run selects the same ones. The
// environment variable KOPFTEST_ALL=1 removes the limit.
func WithMaxPlans(plans int) ExploreOption {
	return func(o *explore.Options) { o.Sample = plans }
}

// Explore first runs a scenario without faults, and derives a plan for each possible fault from it. Then it runs the scenario once for each
// plan, in memory and in virtual time:
//
//   - for each write of the operator: a crash before it, a crash after it, a lost response, an unavailable server, and a conflict;
//   - for each crash and each earlier change of an object: a restart whose first list is as old as that change, as a lagging API server
//     can return it;
//   - for each watch event that is superseded by a later one for the same object: a delay of at most 20 seconds of virtual time. If the
//     later event arrives in the meantime, the operator receives one event for both.
//
// Explore leaves out plans that can't have any effect. For each plan, it checks that
//
//   - all objects and the external state are the same as without faults whenever the operator has no pending work;
//   - no handler is called again for a cause after its success was written;
//   - no status claims that the operator has observed an older generation if only the operator has changed the object since;
//   - the operator finishes its work and writes nothing in the following hour, unless it also does so without faults.
//
// Explore covers the crashes, conflicts and lost responses of [Check], but takes longer. Use both, because Explore doesn't report unsafe
// writes, inject server errors with status 500, or stop the operator during calls.
//
// A failure contains its plan. To run only this plan, set the environment variable KOPFTEST_PLAN to it:
//
//	KOPFTEST_PLAN='crash-after@3/list@1' go test -run '^TestDatabases$' .
//
// The function setup must return a new Scenario for each run, as for [Check]. The test must not run in a testing/synctest bubble. Explore
// logs how many plans were made, omitted and run.
func Explore(t *testing.T, setup func() Scenario, opts ...ExploreOption) {
	t.Helper()
	options, err := exploreOptions(opts)
	if err != nil {
		t.Fatalf("kopftest: %v", err)
	}
	report := explore.Explore(t, runner(setup, nil), options)
	if len(report.Reference.Calls) == 0 {
		t.Error("kopftest: no handler was called, so the scenario tests nothing: give it an object of a kind that the operator has handlers for")
	}
	for _, all := range report.ViolationsByKind() {
		v, others := all[0], ""
		if len(all) > 1 {
			others = fmt.Sprintf(" (and %d more of this kind)", len(all)-1)
		}
		t.Errorf("kopftest: after %s: %s%s\nTo reproduce: %s='%s' go test -run '^%s$' .",
			cmp.Or(v.Plan.String(), "no fault"), v.Text, others, planVariable, v.Plan, t.Name())
	}
	t.Logf("kopftest: %d plans made, %d without effect left out, %d run, %d violations", report.Made, report.Pruned, report.Ran, len(report.Violations))
}

const (
	// planVariable names the environment variable that selects the only plan to run.
	planVariable = "KOPFTEST_PLAN"
	// allVariable names the environment variable that removes the limit of WithMaxPlans unless it is empty.
	allVariable = "KOPFTEST_ALL"
)

// exploreOptions applies the options of Explore. The environment variables take precedence.
func exploreOptions(opts []ExploreOption) (options explore.Options, err error) {
	for _, opt := range opts {
		opt(&options)
	}
	if os.Getenv(allVariable) != "" {
		options.Sample = 0
	}
	if text := os.Getenv(planVariable); text != "" {
		if options.Only, err = explore.Parse(text); err != nil {
			return options, fmt.Errorf("environment variable %s: %w", planVariable, err)
		}
	}
	return options, nil
}

// runner returns a function that runs a scenario for package explore.
func runner(setup func() Scenario, wrap func() explore.TransportWrapper) explore.Runner {
	return func(t *testing.T, plan explore.Plan) *explore.Run {
		t.Helper()
		return runScenario(t, setup, runOptions{plan: plan, when: "after " + cmp.Or(plan.String(), "no fault"), checkIdle: true, wrap: wrap}).run
	}
}

func init() {
	explore.NewRunner = func(setup any, wrap func() explore.TransportWrapper) explore.Runner {
		return runner(setup.(func() Scenario), wrap)
	}
}
