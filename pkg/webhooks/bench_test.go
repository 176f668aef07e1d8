package webhooks_test

import (
	"bytes"
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

// BenchmarkAdmission compares with controller-runtime's own typed webhooks: the handler alone, and with a
// connection as the API server has it (HTTP/2 over TLS). The figures p50-µs and p99-µs are of single requests.
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
	for _, kind := range []string{"validate", "mutate"} {
		var theirs http.Handler = admission.WithValidator(scheme, plain{})
		path := "/v"
		if kind == "mutate" {
			theirs, path = admission.WithDefaulter(scheme, plain{}), "/m"
		}
		for _, over := range []string{"direct", "https"} {
			for _, side := range []struct {
				name    string
				handler http.Handler
			}{{"plain", theirs}, {"ours", ours}} {
				b.Run(kind+"/"+over+"/"+side.name, func(b *testing.B) { measure(b, side.handler, path, over == "https") })
			}
		}
	}
}

func measure(b *testing.B, handler http.Handler, path string, https bool) {
	body := []byte(review())
	call := func() int {
		r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	if https {
		server := httptest.NewUnstartedServer(handler)
		server.EnableHTTP2 = true
		server.StartTLS()
		defer server.Close()
		c := server.Client()
		call = func() int {
			response, err := c.Post(server.URL+path, "application/json", bytes.NewReader(body))
			must(err)
			defer response.Body.Close()
			_, err = io.Copy(io.Discard, response.Body)
			must(err)
			return response.StatusCode
		}
	}
	b.ReportAllocs()
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if code := call(); code != http.StatusOK {
			b.Fatal(code)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) / 1000 }
	b.ReportMetric(at(0.5), "p50-µs")
	b.ReportMetric(at(0.99), "p99-µs")
}

// BenchmarkAdmissionOnTheServer measures what users wait for: one creation through the API server, which calls one
// webhook; ours and controller-runtime's in turns. The ratios are ours to plain.
func BenchmarkAdmissionOnTheServer(b *testing.B) {
	needServer(b)
	var replicas choices
	replicas.hooks = []webhooks.Hook{validate(func(context.Context, *widgetRequest) error { return nil })}
	op := prepare(b, replicas)
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

	took := map[string][]time.Duration{}
	for b.Loop() {
		for _, ns := range []string{op.ns, other} {
			began := time.Now()
			must(k8s.Create(b.Context(), widget(ns, "a", 1), client.DryRunAll))
			took[ns] = append(took[ns], time.Since(began))
		}
	}
	at := func(ns string, q float64) float64 {
		all := took[ns][len(took[ns])/10:] // without those that made the connections
		slices.Sort(all)
		return float64(all[int(q*float64(len(all)-1))].Nanoseconds()) / 1000
	}
	b.ReportMetric(at(op.ns, 0.5), "ours-p50-µs")
	b.ReportMetric(at(other, 0.5), "plain-p50-µs")
	b.ReportMetric(at(op.ns, 0.5)/at(other, 0.5), "p50-ratio")
	b.ReportMetric(at(op.ns, 0.99)/at(other, 0.99), "p99-ratio")
}
