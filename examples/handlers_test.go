package examples

import (
	. "github.com/onsi/gomega"
)

func handlers(e *example) {
	e.start()
	shop := e.sample("shop")
	e.does("kubectl apply -f config/samples")
	e.logs(`Handled`, `"reason": "create"`)
	e.Expect(shop.get("status", "url")).To(Equal("https://shop.example.com"))
	e.silent(`"handler": "review"`)

	e.does(`kubectl patch website shop --type=merge -p '{"spec":{"replicas":3}}'`)
	e.logs(`Handled`, `"reason": "update", "succeeded": 2`)

	e.stop()
	e.start()
	e.logs(`Handled`, `"reason": "resume", "succeeded": 1`)

	e.stop()
	e.does(`kubectl patch website shop --type=merge -p '{"spec":{"domain":"shop.example.org"}}'`)
	e.start()
	e.Eventually(shop.field("status", "url")).Should(Equal("https://shop.example.org"))
	e.logs(`Handled`, `"reason": "update", "succeeded": 3`)

	e.does("kubectl delete website shop")
	e.logs(`Handled`, `"reason": "delete"`)
}
