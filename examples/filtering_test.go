package examples

import (
	. "github.com/onsi/gomega"
)

func filtering(e *example) {
	e.start("-zap-log-level=4")
	orders, sessions := e.sample("orders"), e.sample("sessions")
	e.run("kubectl apply -f config/samples")
	e.waitForLog(`Handled`, `"name": "orders"`, `"reason": "create", "succeeded": 5`)
	e.waitForLog(`Handled`, `"name": "sessions"`, `"reason": "create", "succeeded": 1`)
	e.Expect(orders.get("metadata", "finalizers")).To(HaveLen(1))
	e.Expect(sessions.get("metadata", "finalizers")).To(BeNil())

	e.run(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":20}}'`)
	e.waitForLog(`Handled`, `"name": "orders"`, `"reason": "update", "succeeded": 1`)
	e.run(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":200}}'`)
	e.waitForLog(`Handled`, `"name": "orders"`, `"reason": "update", "succeeded": 2`)
	e.run("kubectl label database sessions tier=gold")
	e.waitForLog(`Handled`, `"name": "sessions"`, `"reason": "update", "succeeded": 1`)

	e.run("kubectl delete -f config/samples")
	e.waitForLog(`Handled`, `"name": "orders"`, `"reason": "delete"`)
	e.expectNoLog(`Called`, `"handler": "foreign"`)
}
