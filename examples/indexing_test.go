package examples

import (
	. "github.com/onsi/gomega"
)

func indexing(e *example) {
	e.start()
	e.run("kubectl apply -f config/samples")
	colors, wiki := e.sample("colors"), e.sample("wiki")
	for _, one := range []object{colors, wiki, e.sample("shop"), e.sample("blog")} {
		e.Eventually(one.field("metadata", "annotations")).Should(HaveKey(lastHandled), one.manifest.GetName())
	}
	e.run(`kubectl patch configmap colors --type=merge -p '{"data":{"background":"black"}}'`)
	e.waitForLog(`Restarting the app`, `"name": "shop"`)
	e.waitForLog(`Restarting the app`, `"name": "blog"`)
	e.Expect(wiki.get("metadata", "annotations")).To(And(HaveLen(3), HaveKey(lastHandled), HaveKey(HavePrefix(stamp)), HaveKey(lastApplied)))

	e.run(`kubectl patch app wiki --type=merge -p '{"spec":{"config":"colors"}}'`)
	e.Eventually(wiki.field("metadata", "annotations", lastHandled)).Should(ContainSubstring(`"config":"colors"`))
	e.run("kubectl delete app blog")
	e.run(`kubectl patch configmap colors --type=merge -p '{"data":{"background":"green"}}'`)
	e.waitForLog(`Restarting the app`, `"name": "wiki"`)
}
