package examples

import (
	. "github.com/onsi/gomega"
)

func tested(e *example) {
	e.start()
	orders := e.sample("orders")
	orders.create()
	e.logs(`will be retried`, `"handler": "open"`, `the mail server is busy`)
	e.logs(`Handled`, `"reason": "create"`)
	e.Expect(orders.get("status", "address")).To(Equal("orders@example.com"))
	e.Expect(orders.get("metadata", "finalizers")).To(HaveLen(1))
	e.Expect(words(e.does("kubectl get mailboxes"))).To(Equal(words(e.shown("kubectl get mailboxes"))))

	orders.patch(`{"spec":{"quota":200}}`)
	e.logs(`Handled`, `"reason": "update"`)
	orders.delete()
}
