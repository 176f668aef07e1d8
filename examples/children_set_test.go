package examples

func childrenSet(e *example) {
	e.start()
	e.run("kubectl apply -f config/crd")
	e.run("kubectl apply -f config/samples")
	e.waitForLog("Child written", "ConfigMap default/shop-page-home", "created", "Ready")
	e.waitForLog("Child written", "ConfigMap default/shop-page-cart", "created", "Ready")
	e.waitForLog("Child written", "Deployment default/shop-server", "created", "InProgress")
	e.run(`kubectl patch website shop --type=merge -p '{"spec":{"pages":["home"]}}'`)
	e.waitForLog("Child written", "ConfigMap default/shop-page-cart", "deleted", "Deleted")
	e.expectNoLog("shop-http")
	e.run(`kubectl patch deployment shop-server --subresource=status --type=merge -p '{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}'`)
	e.waitForLog("Child written", "Service default/shop-http", "created", "Ready")
	e.expectNoLog("forbidden")
}
