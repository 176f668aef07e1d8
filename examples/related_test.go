package examples

func related(e *example) {
	e.start()
	e.run("kubectl apply -f config/samples")
	e.waitForLog("Rendered the page", ", web")
	e.run("kubectl create configmap theme --from-literal=title=Shops")
	e.waitForLog("Rendered the page", `"text": "Shops: kubernetes, web"`)
	e.run(`kubectl patch configmap theme --type=merge -p '{"data":{"title":"Stores"}}'`)
	e.waitForLog("Rendered the page", `"text": "Stores: kubernetes, web"`)
	e.run("kubectl delete service web")
	e.waitForLog("Rendered the page", `"text": "Stores: kubernetes"`)
	e.expectNoLog("forbidden")
}
