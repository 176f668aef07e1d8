package examples

import (
	. "github.com/onsi/gomega"
)

func events(e *example) {
	orders := e.sample("orders")
	e.start()
	e.does("kubectl apply -f config/samples")
	e.logs(`"event": "ADDED"`)

	e.does(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":20}}'`)
	e.logs(`The size has changed`, `"before": 10, "now": 20`)
	e.does("kubectl get database orders -o yaml")
	e.Expect(orders.get("metadata", "annotations")).To(And(HaveLen(1), HaveKey(lastApplied)))
	e.Expect(orders.get("metadata", "finalizers")).To(BeNil())
	e.Expect(orders.get("status")).To(BeNil())

	e.does("kubectl delete database orders")
	e.does("kubectl apply -f config/samples")
	e.Eventually(e.count(`"event": "ADDED"`)).Should(Equal(2))
	e.silent(`The size has changed`, `"before": 20`)

	e.stop()
	e.start()
	e.logs(`none, existed before the start`)
	orders.delete()
}
