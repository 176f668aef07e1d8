package examples

import (
	. "github.com/onsi/gomega"
)

func minimal(e *example) {
	e.start()
	orders := e.sample("orders")
	e.run("kubectl apply -f config/samples")
	e.waitForLog(`Handled`, `"reason": "create"`)
	e.Expect(orders.get("status", "provision", "host")).To(Equal("orders.db.example.com"))
	e.Expect(orders.get("metadata", "finalizers")).To(HaveLen(1))
	e.Expect(orders.get("metadata", "annotations", lastHandled)).To(ContainSubstring(`"sizeGiB":10`))

	e.run(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":20}}'`)
	e.waitForLog(`Handled`, `"reason": "update"`)
	e.Expect(orders.get("metadata", "annotations", lastHandled)).To(ContainSubstring(`"sizeGiB":20`))

	e.run("kubectl delete database orders")
	e.waitForLog(`Handled`, `"reason": "delete"`)
}
