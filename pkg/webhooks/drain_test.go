package webhooks_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// During the shutdown, a server makes clients close their connections, so that no review is lost when the server closes
// them.
func TestDrain_ClosesConnections(t *testing.T) {
	for name, version := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the test mostly waits
			g := NewWithT(t)
			op := start(t, operatorConfig{
				hooks:   []webhooks.Hook{validate(accept)},
				options: func(o *webhooks.Options) { o.Drain = 10 * time.Second },
			})
			c := keepAliveClient(op.name, version)
			defer c.CloseIdleConnections()
			post := func() (reused bool) {
				traced := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
				})
				r, err := http.NewRequestWithContext(traced, http.MethodPost,
					fmt.Sprintf("https://127.0.0.1:%d/hooks/v", op.port), strings.NewReader(review()))
				must(err)
				r.Header.Set("Content-Type", "application/json")
				response, err := c.Do(r)
				g.Expect(err).NotTo(HaveOccurred())
				defer response.Body.Close()
				g.Expect(response.StatusCode).To(Equal(http.StatusOK))
				g.Expect(response.ProtoMajor).To(Equal(version))
				_, err = io.Copy(io.Discard, response.Body)
				g.Expect(err).NotTo(HaveOccurred())
				return reused
			}
			post()
			g.Expect(post()).To(BeTrue(), "want a reused connection")
			stopped := make(chan error, 1)
			go func() { stopped <- op.stop() }()
			g.Eventually(func() error { return op.server.Readyz(nil) }).Should(MatchError(ContainSubstring("shutting down")))
			g.Eventually(func() []bool { return []bool{post(), post()} }).Should(HaveEach(false), "want closed connections")
			g.Expect(<-stopped).To(Succeed())
		})
	}
}

// By default, servers drain with a Service or in a pod. Elsewhere, they stop immediately.
func TestDrain_Defaults(t *testing.T) {
	pod := filepath.Join(t.TempDir(), "namespace")
	must(os.WriteFile(pod, []byte("ns\n"), 0o600))
	service := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "s"}}
	url := admissionregistrationv1.WebhookClientConfig{URL: new("https://h")}
	for name, c := range map[string]struct {
		options     webhooks.Options
		in, outside time.Duration
	}{
		"by default":               {webhooks.Options{}, webhooks.DefaultDrain, 0},
		"with a Service":           {webhooks.Options{ClientConfig: service}, webhooks.DefaultDrain, webhooks.DefaultDrain},
		"with a URL":               {webhooks.Options{ClientConfig: url}, 0, 0},
		"with a custom duration":   {webhooks.Options{ClientConfig: url, Drain: time.Second}, time.Second, time.Second},
		"with a negative duration": {webhooks.Options{ClientConfig: service, Drain: -1}, 0, 0},
	} {
		g := NewWithT(t)
		g.Expect(webhooks.DrainOf(c.options, pod)).To(Equal(c.in), name)
		g.Expect(webhooks.DrainOf(c.options, pod+"-missing")).To(Equal(c.outside), name)
	}
}

// keepAliveClient returns a client that trusts the current caBundle of a configuration and reuses its connections. The
// version is the major version of HTTP. API servers use 1 for Services.
func keepAliveClient(configuration string, version int) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(validatingEntries(configuration)[0].ClientConfig.CABundle)
	protocols := &http.Protocols{}
	protocols.SetHTTP1(version == 1)
	protocols.SetHTTP2(version == 2)
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, Protocols: protocols, MaxIdleConnsPerHost: workers,
	}}
}
