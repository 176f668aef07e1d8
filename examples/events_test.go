package examples

import (
	. "github.com/onsi/gomega"
)

func events(e *example) {
	orders := e.sample("orders")
	e.start()
	orders.create()
	e.logs(`"event": "ADDED"`)

	orders.patch(`{"spec":{"sizeGiB":20}}`)
	e.logs(`The size is another one`, `"before": 10, "now": 20`)
	e.Expect(orders.get("metadata", "annotations")).To(BeNil())
	e.Expect(orders.get("metadata", "finalizers")).To(BeNil())
	e.Expect(orders.get("status")).To(BeNil())

	orders.delete()
	orders.create()
	e.Eventually(e.count(`"event": "ADDED"`)).Should(Equal(2))
	e.silent(`The size is another one`, `"before": 20`)

	e.stop()
	e.start()
	e.logs(`none, it was there before`)
	orders.delete()
}
