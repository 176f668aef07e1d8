package examples

import (
	. "github.com/onsi/gomega"
)

func handlers(e *example) {
	e.start()
	shop := e.sample("shop")
	e.run("kubectl apply -f config/samples")
	e.waitForLog(`Handled`, `"reason": "create"`)
	e.Expect(shop.get("status", "url")).To(Equal("https://shop.example.com"))
	e.expectNoLog(`"handler": "review"`)

	e.run(`kubectl patch website shop --type=merge -p '{"spec":{"replicas":3}}'`)
	e.waitForLog(`Handled`, `"reason": "update", "succeeded": 2`)

	e.stop()
	e.start()
	e.waitForLog(`Handled`, `"reason": "resume", "succeeded": 1`)

	e.stop()
	e.run(`kubectl patch website shop --type=merge -p '{"spec":{"domain":"shop.example.org"}}'`)
	e.start()
	e.Eventually(shop.field("status", "url")).Should(Equal("https://shop.example.org"))
	e.waitForLog(`Handled`, `"reason": "update", "succeeded": 3`)

	e.run("kubectl delete website shop")
	e.waitForLog(`Handled`, `"reason": "delete"`)
}
