package examples

import (
	"slices"

	. "github.com/onsi/gomega"
)

func timers(e *example) {
	e.start()
	orders := e.sample("orders")
	e.run("kubectl apply -f config/samples")
	e.Eventually(orders.field("status", "seen")).ShouldNot(BeNil())
	e.Eventually(orders.field("status", "backup")).Should(Equal("done"))
	e.run("kubectl get database orders -o yaml")
	seen := orders.get("status", "seen")
	e.Eventually(orders.field("status", "seen")).ShouldNot(Equal(seen))
	e.waitForLog(`Replicated`, `"attempt": 1, "size": 10`)
	e.Eventually(orders.field("metadata", "annotations", lastHandled)).Should(ContainSubstring(`"demo.example.com/compacted"`))
	e.expectNoLog(`The database has changed`)

	e.run(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":200}}'`)
	e.waitForLog(`The database has changed`, `10 -> 200`)
	e.waitForLog(`Timer failed permanently`, `200 GiB are too many`)
	e.Eventually(e.countLog(`Compacting`)).Should(Equal(2))
	e.run(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":20}}'`)
	e.waitForLog(`Replicated`, `"size": 20`)
	e.Expect(e.countLog(`too many`)()).To(Equal(1), "the timer must wait for the change of the object")

	e.stop()
	bills := len(e.billedSeconds())
	e.start()
	e.Eventually(func() int { return len(e.billedSeconds()) }).Should(BeNumerically(">=", bills+2))
	e.Expect(slices.IsSorted(e.billedSeconds())).To(BeTrue())
	e.Expect(slices.Compact(e.billedSeconds())).To(HaveLen(len(e.billedSeconds())), "the timer must not bill a second twice")
	e.run("kubectl delete database orders")
}

// billedSeconds returns the seconds that the timer has billed.
func (e *example) billedSeconds() (seconds []float64) {
	for _, line := range e.logged() {
		if line.message == "Billing" {
			seconds = append(seconds, line.fields["seconds"].(float64))
		}
	}
	return seconds
}
