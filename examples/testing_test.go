package examples

import (
	. "github.com/onsi/gomega"
)

func testedHandlers(e *example) {
	e.start()
	orders := e.sample("orders")
	orders.create()
	e.waitForLog(`will be retried`, `"handler": "open"`, `the mail server is busy`)
	e.waitForLog(`Handled`, `"reason": "create"`)
	e.Expect(orders.get("status", "address")).To(Equal("orders@example.com"))
	e.Expect(orders.get("metadata", "finalizers")).To(HaveLen(1))
	e.Expect(words(e.run("kubectl get mailboxes"))).To(Equal(words(e.outputInReadme("kubectl get mailboxes"))))

	orders.patch(`{"spec":{"quota":200}}`)
	e.waitForLog(`Handled`, `"reason": "update"`)
	orders.delete()
}
