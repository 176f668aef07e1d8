package examples

import (
	"fmt"
	"io"
	"math/rand/v2"
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

// freeAddress returns an address that no process uses. Its port is outside the range of outgoing connections, so that they cannot use it.
func freeAddress(e *example) string {
	for e.t.Context().Err() == nil {
		listener, err := net.Listen("tcp", fmt.Sprintf("localhost:%d", 12000+rand.IntN(20000)))
		if err == nil {
			defer listener.Close()
			return listener.Addr().String()
		}
	}
	e.t.Fatal("no port is free")
	panic("unreachable")
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
