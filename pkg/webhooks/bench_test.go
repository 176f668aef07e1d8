package webhooks_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

type plain struct{}

func (plain) Default(_ context.Context, obj *v1.Widget) error {
	obj.Spec.Tags = []string{"a", "b"}
	return nil
}

func (plain) ValidateCreate(context.Context, *v1.Widget) (admission.Warnings, error) {
	return admission.Warnings{"w"}, nil
}

func (plain) ValidateUpdate(context.Context, *v1.Widget, *v1.Widget) (admission.Warnings, error) {
	return nil, nil
}

func (plain) ValidateDelete(context.Context, *v1.Widget) (admission.Warnings, error) { return nil, nil }

// BenchmarkAdmission compares the package with the typed webhooks of controller-runtime, in process and over HTTP/2
// with TLS. It reports the times of single requests, and their ratios.
func BenchmarkAdmission(b *testing.B) {
	ours, err := webhooks.Serve(scheme, webhooks.Options{}, logr.Discard(),
		validate(func(_ context.Context, req *widgetRequest) error {
			if req.Operation == admissionv1.Create {
				req.Warn("w")
			}
			return nil
		}),
		mutate(func(_ context.Context, req *widgetRequest) error {
			req.Object.Spec.Tags = []string{"a", "b"}
			return nil
		}))
	must(err)
	theirs := http.NewServeMux()
	theirs.Handle("/v", admission.WithValidator(scheme, plain{}))
	theirs.Handle("/m", admission.WithDefaulter(scheme, plain{}))
	for _, kind := range []string{"validate", "mutate"} {
		path := "/" + kind[:1]
		b.Run(kind+"/direct", func(b *testing.B) { compare(b, inProcess(ours, path), inProcess(theirs, path)) })
		b.Run(kind+"/https", func(b *testing.B) { compare(b, overHTTPS(b, ours, path), overHTTPS(b, theirs, path)) })
	}
}

// inProcess calls a handler without a connection.
func inProcess(handler http.Handler, path string) func() int {
	body := []byte(review())
	return func() int {
		r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
}

// overHTTPS calls a handler as an API server does.
func overHTTPS(b *testing.B, handler http.Handler, path string) func() int {
	body := []byte(review())
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	b.Cleanup(server.Close)
	c := server.Client()
	return func() int {
		response, err := c.Post(server.URL+path, "application/json", bytes.NewReader(body))
		must(err)
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		must(err)
		return response.StatusCode
	}
}

type side struct {
	name string
	call func() int
	took []time.Duration
}

// compare alternates between both sides, so that other load on the machine affects both.
func compare(b *testing.B, ours, plain func() int) {
	sides := []*side{{name: "ours", call: ours}, {name: "plain", call: plain}}
	for range 100 { // these requests open connections and fill caches
		for _, side := range sides {
			if code := side.call(); code != http.StatusOK {
				b.Fatal(side.name, code)
			}
		}
	}
	for b.Loop() {
		for _, side := range sides {
			began := time.Now()
			side.call()
			side.took = append(side.took, time.Since(began))
		}
		slices.Reverse(sides) // alternate the order
	}
	slices.SortFunc(sides, func(x, y *side) int { return cmp.Compare(x.name, y.name) })
	for _, side := range sides {
		b.ReportMetric(quantile(side.took, 0.5), side.name+"-p50-µs")
		b.ReportMetric(quantile(side.took, 0.99), side.name+"-p99-µs")
		b.ReportMetric(testing.AllocsPerRun(100, func() { side.call() }), side.name+"-allocs")
	}
	for _, q := range []int{50, 99} {
		at := float64(q) / 100
		b.ReportMetric(quantile(sides[0].took, at)/quantile(sides[1].took, at), fmt.Sprintf("p%d-ratio", q))
	}
	b.ReportMetric(0, "ns/op") // the sum of both sides is meaningless
}

// quantile returns a quantile in microseconds.
func quantile(took []time.Duration, q float64) float64 {
	slices.Sort(took)
	return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) / 1000
}

// BenchmarkAdmission_APIServer compares the time of a creation through an API server that calls one webhook.
func BenchmarkAdmission_APIServer(b *testing.B) {
	needServer(b)
	var replicas operatorConfig
	replicas.hooks = []webhooks.Hook{validate(func(context.Context, *widgetRequest) error { return nil })}
	op := newOperator(b, replicas)
	op.mgr.GetWebhookServer().Register("/plain", admission.WithValidator(scheme, plain{}))
	op.run(b)
	op.awaitEntries(b, 1)
	other := newNamespace(b)
	theirs := &admissionregistrationv1.ValidatingWebhookConfiguration{Webhooks: validatingEntries(op.name)}
	theirs.Name = other + ".example.com"
	theirs.Webhooks[0].Name = "plain." + theirs.Name
	theirs.Webhooks[0].ClientConfig.URL = new(fmt.Sprintf("https://127.0.0.1:%d/plain", op.port))
	theirs.Webhooks[0].NamespaceSelector.MatchExpressions[0].Values = []string{other}
	must(k8s.Create(b.Context(), theirs))
	b.Cleanup(func() { must(k8s.Delete(context.Background(), theirs)) })

	create := func(ns string) func() int {
		return func() int {
			must(k8s.Create(b.Context(), widget(ns, "a", 1), client.DryRunAll))
			return http.StatusOK
		}
	}
	compare(b, create(op.ns), create(other))
}
