package examples

import (
	. "github.com/onsi/gomega"
)

func daemons(e *example) {
	e.start()
	orders := e.sample("orders")
	e.does("kubectl apply -f config/samples")
	e.logs(`Watching`, `"size": 10`)
	e.logs(`Warmed up`)
	e.Eventually(orders.field("status", "warm")).Should(BeTrue())
	e.Expect(orders.get("metadata", "finalizers")).To(HaveLen(1))

	e.does("kubectl label database orders unwatched=")
	e.logs(`Stopped watching`, `no longer matches`)
	e.Eventually(orders.field("status", "watch", "rounds")).Should(BeNumerically(">", 0))
	e.does("kubectl label database orders unwatched-")
	e.Eventually(e.count(`Watching`, `"size": 10`)).Should(Equal(2))

	e.stop()
	e.logs(`Stopped watching`, `shutting down`)
	e.start()
	e.Eventually(e.count(`Watching`, `"size": 10`)).Should(Equal(3))

	e.does(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":20}}'`)
	e.logs(`The size has changed`, `"before": 10, "now": 20`)
	e.logs(`Moving the data`)
	e.does("kubectl delete database orders")
	e.logs(`Handled`, `"reason": "delete"`)
	e.logs(`Connection closed`)
}
