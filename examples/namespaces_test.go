package examples

import (
	. "github.com/onsi/gomega"
)

func namespaces(e *example) {
	const prices = "shop.example.com/prices"
	e.start()
	drinks, fruit := e.sample("drinks"), e.sample("fruit")
	e.run("kubectl apply -f config/samples")
	e.waitForLog("Checked the price list", `"name": "drinks"`, `"prices": 2`)
	e.Expect(fruit.get("metadata", "annotations")).To(And(HaveLen(1), HaveKey(lastApplied)))

	e.run("kubectl label namespace market shop.example.com/managed=true")
	e.waitForLog("Checked the price list", `"name": "fruit"`, `"prices": 1`)
	e.Eventually(fruit.field("metadata", "annotations", prices)).Should(Equal("1"))

	e.run("kubectl label namespace shop shop.example.com/managed-")
	e.waitForLog("The namespace is no longer handled", `"namespace": "shop"`)
	e.run(`kubectl patch configmap drinks --namespace shop --type=merge -p '{"data":{"juice":"3.10"}}'`)
	fruit.patch(`{"data":{"pear":"0.60","plum":"0.30"}}`) // the operator would handle the change of drinks before this one
	e.waitForLog("Checked the price list", `"name": "fruit"`, `"prices": 3`)
	e.expectNoLog("Checked the price list", `"name": "drinks"`, `"prices": 3`)
	e.run("kubectl label namespace shop shop.example.com/managed=true")
	e.waitForLog("Checked the price list", `"name": "drinks"`, `"prices": 3`)
	e.Eventually(drinks.field("metadata", "annotations", prices)).Should(Equal("3"))
	e.Expect(drinks.get("metadata", "finalizers")).To(BeNil())
	e.expectNoLog("forbidden")
}
