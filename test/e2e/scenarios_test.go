package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/test/simulation/scenario"
)

// These specs run scenarios of test/simulation on a real API server, with more objects and longer delays. To repeat a
// failure, pass its seed as -ginkgo.seed.
var _ = Describe("Random scenarios", func() {
	const (
		scenarios = 10
		objects   = 12
		pace      = 20 * millisecond
	)

	It("lose no change and repeat no finished handler (B-01, B-10, B-11, B-13, B-14)", func(ctx context.Context) {
		reports := make(chan scenario.Report, scenarios)
		first := uint64(GinkgoRandomSeed()) * scenarios
		for n := range uint64(scenarios) {
			env := scenario.Environment{Config: cp.Config, Namespace: newNamespace(ctx), Tick: pace}
			go func() {
				defer GinkgoRecover()
				reports <- scenario.Run(ctx, env, scenario.NewPlan(first+n, pace, objects))
			}()
		}
		calls, writes := 0, 0
		for range scenarios {
			var report scenario.Report
			Eventually(ctx, reports).WithTimeout(8 * minute).Should(Receive(&report))
			calls, writes = calls+report.Calls, writes+report.Writes
			bad := report.Unexpected()
			if len(bad) > 0 {
				AddReportEntry(fmt.Sprint("report of scenario ", report.Plan.Seed), report.String(), ReportEntryVisibilityFailureOrVerbose)
			}
			Expect(bad).To(BeEmpty(), "scenario %d", report.Plan.Seed)
		}
		AddReportEntry("scenarios", fmt.Sprintf("%d objects, %d calls of handlers, %d writes", scenarios*objects, calls, writes))
	}, SpecTimeout(9*minute))
})
