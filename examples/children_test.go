package examples

import (
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// children does not check the deletion of children, because no garbage collector runs here.
func children(e *example) {
	e.start()
	orders := e.sample("orders")
	e.run("kubectl apply -f config/samples")
	child := func(apiVersion, kind, name string) object {
		return object{e, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"namespace": "default", "name": name},
		}}}
	}
	password := child("v1", "Secret", "orders-password")
	deployment, service := child("apps/v1", "Deployment", "orders-server"), child("v1", "Service", "orders-primary")
	for _, one := range []object{password, deployment, service} {
		e.Eventually(one.field("metadata", "labels", "team")).Should(Equal("shop"))
		e.Expect(one.get("metadata", "ownerReferences")).To(ConsistOf(And(
			HaveKeyWithValue("uid", orders.get("metadata", "uid")), HaveKeyWithValue("controller", true))))
	}
	e.Expect(deployment.get("spec", "template", "metadata", "labels")).To(
		Equal(map[string]any{"database": "orders", "team": "shop"}))
	var greetings corev1.ConfigMapList
	e.Eventually(func() ([]corev1.ConfigMap, error) {
		err := e.client.List(e.t.Context(), &greetings, client.InNamespace("default"), client.MatchingLabels{"team": "shop"})
		return greetings.Items, err
	}).Should(HaveLen(1))
	e.Expect(greetings.Items[0].Name).To(Equal("orders-greeting"))
	e.waitForLog(`Handler failed permanently`, `"handler": "abroad"`, "namespace")

	e.Expect(strings.Split(strings.TrimSpace(e.run("kubectl get secrets,configmaps,deployments,services -l team=shop")), "\n\n")).To(HaveLen(4))

	e.run("kubectl set image deployment/orders-server server=postgres:12")
	e.run("kubectl scale deployment/orders-server --replicas=3")
	e.waitForLog(`Child applied`, `"child": "orders-server", "operation": "updated"`)
	e.Expect(deployment.get("spec", "template", "spec", "containers")).To(ConsistOf(HaveKeyWithValue("image", "postgres:17")))
	e.Expect(deployment.get("spec", "replicas")).To(BeEquivalentTo(3))
	old, kept := service.get("metadata", "uid"), password.get("metadata", "resourceVersion")
	e.run("kubectl delete service orders-primary")
	e.Eventually(service.field("metadata", "uid")).ShouldNot(Equal(old))

	e.run("kubectl label database orders team=web --overwrite")
	e.Eventually(deployment.field("spec", "template", "metadata", "labels", "team")).Should(Equal("web"))
	e.Eventually(service.field("metadata", "labels", "team")).Should(Equal("web"))
	e.Expect(password.get("metadata", "resourceVersion")).To(Equal(kept))
	e.expectNoLog("forbidden")
	e.Expect(orders.get("metadata", "finalizers")).To(BeNil())

	// The operator creates no children while the database is being deleted.
	orders.patch(`{"metadata":{"finalizers":["example.com/hold"]}}`)
	e.run("kubectl delete database orders", "--wait=false")
	deployment.delete()
	e.Consistently(func() bool {
		_, err := deployment.read()
		return apierrors.IsNotFound(err)
	}).WithTimeout(time.Second).Should(BeTrue(), "the operator has created the child again")
	orders.patch(`{"metadata":{"finalizers":null}}`)
	for _, one := range []object{password, service} {
		one.delete()
	}
}
