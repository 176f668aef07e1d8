package examples

import (
	"net"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func allAtOnce(e *example) {
	metrics, health := freeAddress(e), freeAddress(e)
	_, port, err := net.SplitHostPort(freeAddress(e))
	e.Expect(err).NotTo(HaveOccurred())
	args := []string{"-metrics-bind-address=" + metrics, "-health-probe-bind-address=" + health, "-port=" + port}
	peering, orders := e.sample("all-at-once"), e.sample("orders")
	peering.create()
	e.start(args...)
	e.Eventually(func() string { // wait until the API server uses the webhook configurations
		dry := orders.manifest.DeepCopy()
		dry.SetLabels(nil)
		e.Expect(e.client.Create(e.t.Context(), dry, client.DryRunAll)).To(Succeed())
		return dry.GetLabels()["tier"]
	}).Should(Equal("silver"))
	e.run("kubectl apply -f config/samples")
	e.waitForLog(`Handled`, `"reason": "create"`)
	e.Eventually(orders.row).Should(Equal("orders 16 2 orders.db.example.com True"))
	status := orders.get("status").(map[string]any)
	e.Expect(status["conditions"]).To(HaveLen(3))
	delete(status, "conditions")
	e.Expect(status).To(Equal(map[string]any{
		"address": "orders.db.example.com",
		"users":   map[string]any{"alice": true, "bob": true},
		"results": map[string]any{"provision": map[string]any{"attempts": int64(2)}},
	}))
	e.Eventually(orders.field("metadata", "annotations")).Should(And(HaveLen(4), HaveKey(HavePrefix("all.example.com/state-of-")), HaveKey(lastApplied),
		HaveKey("all.example.com/last-handled-configuration"), HaveKeyWithValue("all.example.com/kopf-managed", "yes")))
	e.Eventually(orders.field("metadata", "annotations", "all.example.com/last-handled-configuration")).Should(MatchJSON(
		`{"kopf-runtime.dev/conditions":{"Ready":"True"},"metadata":{"labels":{"tier":"gold"}},"spec":{"nodes":2,"users":["alice","bob"],"version":"16"}}`))
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
	e.waitForLog(`Secret changed`)
	e.waitForLog(`Billing`, `"nodes": 2`)
	e.run(`kubectl patch cluster orders --type=merge -p '{"metadata":{"annotations":{"example.com/greet":""}},"spec":{"version":"17","nodes":3,"users":["alice","root"]}}'`)
	e.waitForLog(`Handled`, `"reason": "update"`, `"succeeded": 4`)
	downgrade := `kubectl patch cluster orders --type=merge -p '{"spec":{"version":"15"}}'`
	e.Expect(e.runFailing(downgrade)).To(ContainSubstring(strings.TrimSpace(e.outputInReadme(downgrade))))
	e.stop()
	e.start(args...)
	e.waitForLog(`Handled`, `"reason": "resume"`)

	laptop := e.secondProcess()
	_, port, err = net.SplitHostPort(freeAddress(e))
	e.Expect(err).NotTo(HaveOccurred())
	laptop.start("-metrics-bind-address=0", "-health-probe-bind-address=0", "-port="+port, "-dev")
	e.waitForLog(`Paused`, `precedence`)
	laptop.waitForLog(`Watching`)
	laptop.stop()
	e.waitForLog(`Resumed`)

	e.run("kubectl label cluster orders --overwrite tier=silver")
	e.waitForLog(`Moving`, `"to": "silver"`)
	e.Eventually(orders.field("metadata", "finalizers")).Should(BeNil())
	e.run("kubectl label cluster orders --overwrite tier=gold")
	e.Eventually(orders.field("metadata", "finalizers")).Should(HaveLen(1))
	e.run("kubectl delete cluster orders")
	e.waitForLog(`Handled`, `"reason": "delete"`)
	e.expectNoLog("forbidden")
	e.stop()
}

// owned returns an object that the object owns.
func (o object) owned(apiVersion, kind, name string) object {
	return object{o.example, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{
			"namespace": "default", "name": name,
			"ownerReferences": []any{map[string]any{
				"apiVersion": o.manifest.GetAPIVersion(), "kind": o.manifest.GetKind(), "name": o.manifest.GetName(), "uid": o.get("metadata", "uid"),
			}},
		},
	}}}
}
