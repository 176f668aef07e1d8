package examples

func kinds(e *example) {
	e.run("kubectl apply -f config/crd")
	e.start()
	e.run("kubectl apply -f config/samples")
	e.waitForLog("Registered", `"of": "Book"`)
	e.run("kubectl apply -f config/toys/crd.yaml")
	e.run("kubectl wait --for=condition=established crd/toys.shop.example.com")
	e.run("kubectl apply -f config/toys/toy.yaml")
	e.waitForLog("Registered", `"of": "Toy"`)
	e.run("kubectl delete crd toys.shop.example.com")
	e.waitForLog("Deregistered", `"of": "Toy"`)
	e.waitForLog("The API server no longer serves the kind", `"kind": "Toy"`)
	e.run("kubectl delete -f config/samples")
	e.waitForLog("Deregistered", `"of": "Book"`)
	e.expectNoLog("forbidden")
}
