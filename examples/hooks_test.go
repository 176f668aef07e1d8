package examples

import (
	"io"
	"net"
	"net/http"

	. "github.com/onsi/gomega"
)

func hooks(e *example) {
	metrics, health := freeAddress(e), freeAddress(e)
	e.start("-metrics-bind-address="+metrics, "-health-probe-bind-address="+health)
	orders := e.sample("orders")
	e.run("kubectl apply -f config/samples")
	e.waitForLog(`Handled`, `"reason": "create"`)
	for _, url := range []string{health + "/healthz", health + "/readyz"} {
		e.Eventually(func() (string, error) { return fetch(url) }).Should(Equal("ok"), url)
	}
	e.Eventually(func() (string, error) { return fetch(metrics + "/kopf/probes") }).
		Should(MatchJSON(`{"cloud":"connected","provisioned":1}`))
	orders.delete()
	e.stop()
}

// freeAddress returns an address that no process uses.
func freeAddress(e *example) string {
	listener, err := net.Listen("tcp", "localhost:0")
	e.Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	return listener.Addr().String()
}

func fetch(address string) (string, error) {
	response, err := http.Get("http://" + address)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}
