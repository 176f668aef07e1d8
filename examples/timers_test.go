package examples

import (
	"slices"

	. "github.com/onsi/gomega"
)

func timers(e *example) {
	e.start()
	orders := e.sample("orders")
	e.does("kubectl apply -f config/samples")
	e.Eventually(orders.field("status", "seen")).ShouldNot(BeNil())
	e.Eventually(orders.field("status", "backup")).Should(Equal("done"))
	e.does("kubectl get database orders -o yaml")
	seen := orders.get("status", "seen")
	e.Eventually(orders.field("status", "seen")).ShouldNot(Equal(seen))
	e.logs(`Replicated`, `"attempt": 1, "size": 10`)
	e.Eventually(orders.field("metadata", "annotations", lastHandled)).Should(ContainSubstring(`"demo.example.com/compacted"`))
	e.silent(`The database has changed`)

	e.does(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":200}}'`)
	e.logs(`The database has changed`, `10 -> 200`)
	e.logs(`Timer failed permanently`, `200 GiB are too many`)
	e.Eventually(e.count(`Compacting`)).Should(Equal(2))
	e.does(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":20}}'`)
	e.logs(`Replicated`, `"size": 20`)
	e.Expect(e.count(`too many`)()).To(Equal(1), "it has waited for the change")

	e.stop()
	bills := len(e.bills())
	e.start()
	e.Eventually(func() int { return len(e.bills()) }).Should(BeNumerically(">=", bills+2))
	e.Expect(slices.IsSorted(e.bills())).To(BeTrue())
	e.Expect(slices.Compact(e.bills())).To(HaveLen(len(e.bills())), "no second is paid twice")
	e.does("kubectl delete database orders")
}

// bills are the seconds that were to be paid.
func (e *example) bills() (seconds []float64) {
	for _, line := range e.logged() {
		if line.message == "Billing" {
			seconds = append(seconds, line.fields["seconds"].(float64))
		}
	}
	return seconds
}
