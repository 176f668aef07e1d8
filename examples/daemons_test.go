package examples

import (
	. "github.com/onsi/gomega"
)

func daemons(e *example) {
	e.start()
	orders := e.sample("orders")
	e.run("kubectl apply -f config/samples")
	e.waitForLog(`Watching`, `"size": 10`)
	e.waitForLog(`Warmed up`)
	e.Eventually(orders.field("status", "warm")).Should(And(Not(BeNil()), BeTrue()))
	e.Expect(orders.get("metadata", "finalizers")).To(HaveLen(1))

	e.run("kubectl label database orders unwatched=")
	e.waitForLog(`Stopped watching`, `no longer matches`)
	e.Eventually(orders.field("status", "watch", "rounds")).Should(BeNumerically(">", 0))
	e.run("kubectl label database orders unwatched-")
	e.Eventually(e.countLog(`Watching`, `"size": 10`)).Should(Equal(2))

	e.stop()
	e.waitForLog(`Stopped watching`, `shutting down`)
	e.start()
	e.Eventually(e.countLog(`Watching`, `"size": 10`)).Should(Equal(3))

	e.run(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":20}}'`)
	e.waitForLog(`The size has changed`, `"before": 10, "now": 20`)
	e.waitForLog(`Moving the data`)
	e.run("kubectl delete database orders")
	e.waitForLog(`Handled`, `"reason": "delete"`)
	e.waitForLog(`Connection closed`)
}
