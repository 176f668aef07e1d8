package explore

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/kopf-runtime/kopf-runtime/internal/explore"
)

var (
	all  = flag.Bool("all", false, "run all plans")
	only = flag.String("plan", "", "repeat this plan of a scenario, such as 'create: crash-after@3'")
)

func TestMain(m *testing.M) {
	flag.Parse()
	utilruntime.ErrorHandlers = nil //nolint:reassign // one of them sleeps by a clock that all bubbles share, and the others write to stderr
	os.Exit(m.Run())
}

// TestExplore checks that no scenario has a violation.
func TestExplore(t *testing.T) {
	if *only != "" {
		replay(t, *only)
		return
	}
	sum := &total{phases: map[string]bool{}}
	t.Cleanup(func() { t.Log(sum) })
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			options := explore.Options{Pairs: s.pairs && *all, Sample: sampled}
			if *all {
				options.Sample = 0
			}
			options.Skip = func(plan explore.Plan) bool {
				fault, _, _ := strings.Cut(plan.String(), "/") // omit the first list of the next process from the plan
				return s.limits[fault] != ""
			}
			report := explore.Explore(t, explore.NewRunner(s.setup, nil), options)
			sum.add(s.name, report)
			t.Logf("%d writes, %d notices, %d changes: %d plans made, %d pruned, %d run, %d of them idle, %d violations",
				len(report.Reference.Writes), len(report.Reference.WatchEvents), len(report.Reference.Changes),
				report.Made, report.Pruned, report.Ran, report.Idle, len(report.Violations))
			for kind, all := range report.ViolationsByKind() {
				v := all[0]
				t.Errorf("%d violations of the kind %q. The first one: %s\nTo reproduce: go test ./test/simulation/explore -run TestExplore -plan='%s: %s'\nOthers: %v",
					len(all), kind, v.Text, s.name, v.Plan, plansOf(all[1:]))
			}
		})
	}
}

// TestChains_SurviveCrashesAfterTheStatus crashes the operator between the request for the status and the request for the records.
func TestChains_SurviveCrashesAfterTheStatus(t *testing.T) {
	for _, text := range []string{
		"chain: crash-after@2", "chain: crash-after@5", "chain-with-flush: crash-after@2", "chain-with-flush: crash-after@5",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			replay(t, text)
		})
	}
}

func plansOf(violations []explore.Violation) (plans []explore.Plan) {
	for _, v := range violations {
		plans = append(plans, v.Plan)
	}
	return plans
}

// replay runs one plan until it fails.
func replay(t *testing.T, text string) {
	t.Helper()
	name, plan, _ := strings.Cut(text, ": ")
	s, ok := find(name)
	if !ok {
		t.Fatalf("unknown scenario %q", name)
	}
	options := explore.Options{}
	var err error
	if options.Only, err = explore.Parse(plan); err != nil {
		t.Fatal(err)
	}
	report := explore.Explore(t, explore.NewRunner(s.setup, nil), options)
	t.Logf("without faults:\n%s", report.Reference)
	for _, v := range report.Violations {
		t.Errorf("%s\n%s", v.Text, v.Run)
	}
}

// total summarizes the reports of all scenarios.
type total struct {
	mu                                  sync.Mutex
	made, pruned, ran, idle, violations int
	phases                              map[string]bool
}

func (s *total) add(name string, r *explore.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made, s.pruned, s.ran, s.idle, s.violations = s.made+r.Made, s.pruned+r.Pruned, s.ran+r.Ran, s.idle+r.Idle, s.violations+len(r.Violations)
	for phase := range r.Phases {
		s.phases[name+": "+phase] = true
	}
}

func (s *total) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("plans made: %d, pruned: %d, run: %d, without effect: %d, violations: %d; %d distinct pairs of a scenario and a phase had faults",
		s.made, s.pruned, s.ran, s.idle, s.violations, len(s.phases))
}
