package examples

import (
	. "github.com/onsi/gomega"
)

func kinds(e *example) {
	e.run("kubectl apply -f config/crd")
	e.start()
	e.run("kubectl apply -f config/samples")
	e.waitForLog("Registered", `"of": "Book"`)
	e.run("kubectl apply -f config/toys/crd.yaml")
	e.run("kubectl wait --for=condition=established crd/toys.shop.example.com")
	e.Eventually(func() error { // an established kind is served a moment later
		_, err := e.execute("kubectl apply -f config/toys/toy.yaml")
		return err
	}).Should(Succeed())
	e.waitForLog("Registered", `"of": "Toy"`)
	e.run("kubectl delete crd toys.shop.example.com")
	e.waitForLog("Deregistered", `"of": "Toy"`)
	e.waitForLog("The API server no longer serves the kind", `"kind": "Toy"`)
	e.run("kubectl delete -f config/samples")
	e.waitForLog("Deregistered", `"of": "Book"`)
	e.expectNoLog("forbidden")
}
