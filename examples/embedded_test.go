package examples

import (
	"net/http"

	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/hack/example/program"
)

// embedded covers EMB-03, EMB-04 and EMB-05.
func embedded(e *example) {
	address := freeAddress(e)
	e.start("-listen=" + address)
	e.run("kubectl apply -f config/samples")
	e.waitForLog(`Added to the list`, `"team": "blue"`, `"orders"`)
	e.waitForLog(`Added to the list`, `"team": "green"`, `"customers"`)
	teams := address + "/teams"
	e.Eventually(func() (string, error) { return fetch(teams) }).Should(Equal("blue: orders\ngreen: customers\n")) // responds when the server listens

	e.Expect(ask(http.MethodDelete, teams+"/blue")).To(Equal(http.StatusNoContent))
	orders, customers := e.sample("orders"), e.sample("customers")
	e.run("kubectl delete database orders --namespace blue --wait=false")
	e.run("kubectl delete database customers --namespace green")
	e.Eventually(func() (string, error) { return fetch(teams) }).Should(Equal("green: \n"))
	e.expectNoLog(`Removed from the list`, `"team": "blue"`)

	e.Expect(ask(http.MethodPut, teams+"/blue")).To(Equal(http.StatusNoContent))
	e.waitForLog(`Removed from the list`, `"team": "blue"`)
	e.Eventually(func() (string, error) { return fetch(teams) }).Should(Equal("blue: \ngreen: \n"))
	e.Eventually(e.countLog("\tOperator started\t")).Should(Equal(3))
	e.Expect(ask(http.MethodPut, teams+"/blue")).To(Equal(http.StatusNoContent), "PUT must succeed for a running operator")
	e.Expect(e.countLog("\tOperator started\t")()).To(Equal(3))

	e.Expect(ask(http.MethodDelete, teams+"/blue")).To(Equal(http.StatusNoContent))
	customers.create()
	e.Eventually(func() (string, error) { return fetch(teams) }).Should(Equal("green: customers\n"))
	customers.delete()
	e.stop()

	// Without teams, the program starts no operator until it receives a request.
	orders.create()
	var err error
	e.operator, err = program.Start(e.file, []string{"-listen=" + address, "-teams="}, "KUBECONFIG="+e.kubeconfig)
	e.Expect(err).NotTo(HaveOccurred())
	e.Eventually(func() (string, error) { return fetch(teams) }).Should(BeEmpty())
	e.Expect(ask(http.MethodPut, teams+"/green")).To(Equal(http.StatusNoContent))
	customers.create()
	e.Eventually(func() (string, error) { return fetch(teams) }).Should(Equal("green: customers\n"))
	e.Expect(e.countLog(`Added to the list`, `"orders"`)()).To(Equal(1), "only the first process may add the database orders")
	customers.delete()
	e.stop()
	orders.delete()
}

func ask(method, address string) (int, error) {
	request, err := http.NewRequest(method, "http://"+address, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
