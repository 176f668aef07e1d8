package examples

import (
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func allAtOnce(e *example) {
	metrics, health := freeAddress(e), freeAddress(e)
	args := []string{"-metrics-bind-address=" + metrics, "-health-probe-bind-address=" + health}
	e.start(args...)
	orders := e.sample("orders")
	orders.create()
	e.logs(`Handled`, `"reason": "create"`)
	e.Expect(orders.get("status")).To(Equal(map[string]any{
		"address": "orders.db.example.com",
		"users":   map[string]any{"alice": true, "bob": true},
		"results": map[string]any{"provision": map[string]any{"attempts": int64(2)}},
	}))
	e.Expect(orders.get("metadata", "annotations")).To(And(HaveLen(2),
		HaveKey("all.example.com/last-handled-configuration"), HaveKeyWithValue("all.example.com/kopf-managed", "yes")))
	e.Expect(orders.get("metadata", "annotations", "all.example.com/last-handled-configuration")).To(MatchJSON(
		`{"metadata":{"labels":{"tier":"gold"}},"spec":{"nodes":2,"users":["alice","bob"],"version":"16"}}`))
	e.Expect(orders.get("metadata", "finalizers")).To(Equal([]any{"all.example.com/finalizer"}))
	e.Eventually(orders.events).Should(ConsistOf("Provisioned: There are 2 nodes",
		"HandlerRecovered: provision has succeeded; failed attempts before that: 1"))
	book := orders.owned(corev1.SchemeGroupVersion.String(), "ConfigMap", "orders-address")
	e.Eventually(book.field("data", "address")).Should(Equal("orders.db.example.com"))
	e.Eventually(func() (string, error) { return fetch(metrics + "/kopf/probes") }).Should(MatchJSON(`{"versions":1}`))
	for _, check := range []string{"/healthz", "/readyz"} {
		e.Expect(fetch(health+check)).To(Equal("ok"), check)
	}

	orders.owned(corev1.SchemeGroupVersion.String(), "Secret", "orders-password").create()
	e.logs(`A secret of a cluster`)
	orders.patch(`{"metadata":{"annotations":{"example.com/greet":""}},"spec":{"version":"17","nodes":3,"users":["alice","root"]}}`)
	e.logs(`Handled`, `"reason": "update"`)
	e.stop()
	e.start(args...)
	e.logs(`Handled`, `"reason": "resume"`)

	orders.patch(`{"metadata":{"labels":{"tier":"silver"}}}`)
	e.logs(`Moving`, `"to": "silver"`)
	e.Eventually(orders.field("metadata", "finalizers")).Should(BeNil())
	orders.patch(`{"metadata":{"labels":{"tier":"gold"}}}`)
	e.Eventually(orders.field("metadata", "finalizers")).Should(HaveLen(1))
	orders.delete()
	e.logs(`Handled`, `"reason": "delete"`)
	e.silent("forbidden")
	e.stop()
}

// owned is an object that belongs to this one.
func (o object) owned(apiVersion, kind, name string) object {
	return object{o.example, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{
			"namespace": "default", "name": name,
			"ownerReferences": []any{map[string]any{
				"apiVersion": o.is.GetAPIVersion(), "kind": o.is.GetKind(), "name": o.is.GetName(), "uid": o.get("metadata", "uid"),
			}},
		},
	}}}
}
