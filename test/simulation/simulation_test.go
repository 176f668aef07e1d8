package simulation

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
	"github.com/kopf-runtime/kopf-runtime/test/simulation/apiserver"
	"github.com/kopf-runtime/kopf-runtime/test/simulation/scenario"
)

var (
	simulations = flag.Int("simulations", 300, "how many scenarios to simulate")
	seed        = flag.Uint64("seed", 0, "replay this one scenario, with its log")
)

func TestMain(m *testing.M) {
	flag.Parse()
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

func TestSim(t *testing.T) {
	if *seed != 0 {
		r := simulate(t, *seed)
		t.Log(r)
		return
	}
	began := time.Now()
	count := map[scenario.Property]int{}
	first := map[scenario.Property][]uint64{}
	calls, writes := 0, 0
	for s := range uint64(*simulations) {
		r := simulate(t, s+1)
		calls += r.Calls
		writes += r.Writes
		seen := map[scenario.Property]bool{}
		for _, v := range r.Violations {
			if v.Property == scenario.NeverLost && !r.Plan.Patient {
				continue
			}
			if !seen[v.Property] {
				seen[v.Property] = true
				count[v.Property]++
				if len(first[v.Property]) < 12 {
					first[v.Property] = append(first[v.Property], s+1)
				}
			}
		}
	}
	for p, n := range count {
		t.Log(p, n, first[p])
	}
	t.Log(time.Since(began), calls, writes)
}

func simulate(t *testing.T, seed uint64) (report scenario.Report) {
	t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := apiserver.New(v1.GroupVersion,
				apiserver.Resource{Kind: "Widget", Plural: "widgets", HasStatus: true},
				apiserver.Resource{Kind: "Gadget", Plural: "gadgets"})
			config := &rest.Config{Host: "http://simulated", Transport: server, QPS: -1}
			report = scenario.Run(t.Context(), scenario.Environment{Config: config, Namespace: "ns", Tick: time.Second},
				scenario.NewPlan(seed, time.Second, 0))
		})
	})
	return report
}
