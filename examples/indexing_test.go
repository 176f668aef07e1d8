package examples

import (
	. "github.com/onsi/gomega"
)

func indexing(e *example) {
	e.start()
	e.apply()
	colors, wiki := e.sample("colors"), e.sample("wiki")
	for _, one := range []object{colors, wiki, e.sample("shop"), e.sample("blog")} {
		e.Eventually(one.field("metadata", "annotations")).Should(HaveKey(lastHandled), one.is.GetName())
	}
	colors.patch(`{"data":{"background":"black"}}`)
	e.logs(`Starting the app again`, `"name": "shop"`)
	e.logs(`Starting the app again`, `"name": "blog"`)
	e.Expect(wiki.get("metadata", "annotations")).To(HaveLen(1))

	wiki.patch(`{"spec":{"config":"colors"}}`)
	e.Eventually(wiki.field("metadata", "annotations", lastHandled)).Should(ContainSubstring(`"config":"colors"`))
	e.sample("blog").delete()
	colors.patch(`{"data":{"background":"green"}}`)
	e.logs(`Starting the app again`, `"name": "wiki"`)
	e.sample("shop").delete()
	wiki.delete()
	colors.delete()
}
