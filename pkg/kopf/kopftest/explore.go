package kopftest

import (
	"cmp"
	"fmt"
	"os"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/explore"
)

// An ExploreOption is a choice for [Explore].
type ExploreOption func(*explore.Options)

// WithPairs adds plans of two faults. Their number grows with the square of the number of writes: it is for short stories.
func WithPairs() ExploreOption {
	return func(o *explore.Options) { o.Pairs = true }
}

// WithMaxPlans limits the number of plans that are run. They are spread evenly over all plans, and are the same each time. The environment variable
// KOPFTEST_ALL=1 removes the limit.
func WithMaxPlans(plans int) ExploreOption {
	return func(o *explore.Options) { o.Sample = plans }
}

// Explore runs the story of a scenario without faults, and then once for each plan of faults that follows from this run, in memory and in
// virtual time:
//
//   - for each write of the operator: a crash before it, a crash after it, a lost answer, an unavailable server, and a conflict;
//   - for each crash and each earlier change of an object: the new operator begins with a list that is as old as that change, as an API
//     server that lags may answer it;
//   - for each event of a watch that a later one of the same object overwrites: the operator does not see it.
//
// Plans that can have no effect are left out. After each plan
//
//   - all objects, and what is outside, are the same whenever the operator is at rest as without faults;
//   - no handler was called again for a cause after its success was written;
//   - the operator comes to rest, and stays there for an hour, unless it also writes in that hour without faults.
//
// It finds what [Check] finds about crashes and lost answers, and takes longer. It does not look at what handlers write, and does not shut the operator down
// during calls: use both. A failure names the plan; the environment variable KOPFTEST_PLAN runs it alone:
//
//	KOPFTEST_PLAN='crash-after@3/list@1' go test -run '^TestDatabases$' .
//
// The function makes a new scenario for each run, as for [Check]; the test must not be in a bubble of testing/synctest. The test logs how many plans were made, left out
// and run.
func Explore(t *testing.T, setup func() Scenario, opts ...ExploreOption) {
	t.Helper()
	options, err := exploreOptions(opts)
	if err != nil {
		t.Fatalf("kopftest: %v", err)
	}
	report := explore.Explore(t, runner(setup, nil), options)
	if len(report.Reference.Calls) == 0 {
		t.Error("kopftest: no handler was called in the whole story: the scenario shows nothing. Give it an object of a kind that the operator has handlers for")
	}
	for _, all := range report.Kinds() {
		v, others := all[0], ""
		if len(all) > 1 {
			others = fmt.Sprintf(" (and %d more of this kind)", len(all)-1)
		}
		t.Errorf("kopftest: after %s: %s%s\nTo see it again: %s='%s' go test -run '^%s$' .",
			cmp.Or(v.Plan.String(), "no fault"), v.Text, others, planVariable, v.Plan, t.Name())
	}
	t.Logf("kopftest: %d plans made, %d without effect left out, %d run, %d violations", report.Made, report.Pruned, report.Ran, len(report.Violations))
}

const (
	// planVariable names the environment variable with the only plan to run.
	planVariable = "KOPFTEST_PLAN"
	// allVariable names the environment variable that removes the limit of WithMaxPlans. Any value but the empty one does.
	allVariable = "KOPFTEST_ALL"
)

// exploreOptions returns the options of a call of Explore. The environment variables take precedence.
func exploreOptions(opts []ExploreOption) (options explore.Options, err error) {
	for _, opt := range opts {
		opt(&options)
	}
	if os.Getenv(allVariable) != "" {
		options.Sample = 0
	}
	if text := os.Getenv(planVariable); text != "" {
		if options.Only, err = explore.Parse(text); err != nil {
			return options, fmt.Errorf("the variable %s: %w", planVariable, err)
		}
	}
	return options, nil
}

// runner runs a story for the explorer.
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
