package examples

import (
	. "github.com/onsi/gomega"
)

func events(e *example) {
	orders := e.sample("orders")
	e.start()
	e.run("kubectl apply -f config/samples")
	e.waitForLog(`"event": "ADDED"`)

	e.run(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":20}}'`)
	e.waitForLog(`The size has changed`, `"before": 10, "now": 20`)
	e.run("kubectl get database orders -o yaml")
	e.Expect(orders.get("metadata", "annotations")).To(And(HaveLen(1), HaveKey(lastApplied)))
	e.Expect(orders.get("metadata", "finalizers")).To(BeNil())
	e.Expect(orders.get("status")).To(BeNil())

	e.run("kubectl delete database orders")
	e.run("kubectl apply -f config/samples")
	e.Eventually(e.countLog(`"event": "ADDED"`)).Should(Equal(2))
	e.expectNoLog(`The size has changed`, `"before": 20`)

	e.stop()
	e.start()
	e.waitForLog(`none, existed before the start`)
	orders.delete()
}
