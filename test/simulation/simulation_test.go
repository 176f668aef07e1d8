package simulation

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/internal/clocks"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
	"github.com/kopf-runtime/kopf-runtime/test/simulation/scenario"
)

const defaultSimulations = 300

var (
	simulations = flag.Int("simulations", defaultSimulations, "number of scenarios to simulate")
	seed        = flag.Uint64("seed", 0, "repeat this scenario and show the log")
)

// replays is the number of runs of one scenario. The runs differ in the order of goroutines.
const replays = 25

// former contains the seeds of scenarios that have failed before.
var former = []uint64{5, 14, 20, 90, 101, 117, 172, 210, 391, 478, 494, 646, 912, 1213, 1214, 2690, 20782011741, 20782014691, 20784007092}

func TestMain(m *testing.M) {
	flag.Parse()
	//nolint:reassign // one error handler uses a clock that all bubbles share, and the others write to stderr
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

// The scenarios cover B-01 B-03 B-05 B-10 B-11 B-12 B-13 B-14.
func TestSimulations(t *testing.T) {
	if *seed != 0 {
		replay(t)
		return
	}
	if testing.Short() || raceEnabled && *simulations == defaultSimulations {
		*simulations = min(*simulations, 50)
	}
	// Each day has its own seeds. The names of failed tests contain the seeds.
	first := uint64(time.Now().Unix()/86400) * 1_000_000
	seeds := slices.Clone(former[:min(len(former), *simulations)])
	for n := range *simulations - len(seeds) {
		seeds = append(seeds, first+uint64(n))
	}
	var all tally
	t.Cleanup(func() { t.Log(all.String()) })
	for _, s := range seeds {
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) {
			t.Parallel()
			report := simulate(t, scenario.NewPlan(s, time.Second, 0))
			all.add(report)
			if bad := report.Unexpected(); len(bad) > 0 {
				t.Errorf("%s\nTo reproduce: go test ./test/simulation -run TestSimulations -seed=%d\n%s", bad[0], s, report)
			}
		})
	}
}

// replay runs one scenario repeatedly until it fails.
func replay(t *testing.T) {
	var report scenario.Report
	for range replays {
		report = simulate(t, scenario.NewPlan(*seed, time.Second, 0))
		if bad := report.Unexpected(); len(bad) > 0 {
			t.Errorf("%s", bad[0])
			break
		}
	}
	t.Log(report)
}

// simulate runs a plan in its own bubble.
func simulate(t *testing.T, plan scenario.Plan) (report scenario.Report) {
	synctest.Test(t, func(t *testing.T) {
		report = scenario.Run(t.Context(), scenario.Environment{Config: simulated(), Namespace: namespace, Tick: time.Second}, plan)
	})
	return report
}

// seeds returns the number of seeds of a test, which is smaller with the race detector.
func seeds(n uint64) uint64 {
	if raceEnabled {
		return max(1, n/10)
	}
	return n
}

const namespace = "ns"

// simulated returns the configuration of a new API server.
func simulated() *rest.Config {
	clocks.MakeOdd()
	server := apiserver.New(
		apiserver.Resource{GroupVersion: v1.GroupVersion, Kind: "Widget", Plural: "widgets", HasStatus: true},
		apiserver.Resource{GroupVersion: v1.GroupVersion, Kind: "Gadget", Plural: "gadgets"})
	return &rest.Config{Host: "http://simulated", Transport: server, QPS: -1}
}

// tally summarizes the simulations.
type tally struct {
	mu                  sync.Mutex
	runs, calls, writes int
	known               map[scenario.Property]int // number of runs that violated each property
}

func (a *tally) add(r scenario.Report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs, a.calls, a.writes = a.runs+1, a.calls+r.Calls, a.writes+r.Writes
	seen := map[scenario.Property]int{}
	for _, v := range r.Violations {
		seen[v.Property] = 1
	}
	if a.known == nil {
		a.known = map[scenario.Property]int{}
	}
	for p := range seen {
		a.known[p]++
	}
}

func (a *tally) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := fmt.Sprintf("%d runs, %d calls of handlers, %d writes", a.runs, a.calls, a.writes)
	for _, p := range slices.Sorted(maps.Keys(a.known)) {
		text += fmt.Sprintf("\nviolated in %d runs: %s", a.known[p], p)
	}
	return text
}
