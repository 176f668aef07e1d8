package examples

import (
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func builtins(e *example) {
	e.start()
	e.run("kubectl apply -f config/samples")
	// No kubelet runs the pod here, so the test writes its phase.
	once := e.sample("once")
	e.waitForLog(`The phase of the pod has changed`, `"now": "Pending"`)
	once.patchStatus(`{"status":{"phase":"Running"}}`)
	e.waitForLog(`The phase of the pod has changed`, `"now": "Running"`)
	once.patchStatus(`{"status":{"phase":"Failed"}}`)
	e.Eventually(once.events).Should(ConsistOf("PodFailed: The pod was Running, and has failed"))
	e.Eventually(once.field("metadata", "annotations", lastHandled)).Should(ContainSubstring(`"status":{"phase":"Failed"}`))

	policy := object{e, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": "NetworkPolicy",
		"metadata": map[string]any{"namespace": "vault", "name": "isolated"},
	}}}
	vault := e.sample("vault")
	e.Eventually(policy.field("metadata", "ownerReferences")).Should(HaveLen(1))
	old := policy.get("metadata", "uid")
	e.run("kubectl delete networkpolicy isolated --namespace vault")
	e.Eventually(policy.field("metadata", "uid")).ShouldNot(Equal(old))
	e.run(`kubectl patch networkpolicy isolated --namespace vault --type=merge -p '{"spec":{"policyTypes":["Egress"]}}'`)
	e.Eventually(policy.field("spec", "policyTypes")).Should(Equal([]any{"Ingress"}))
	e.Expect(vault.get("metadata", "annotations")).To(And(HaveLen(1), HaveKey(lastApplied)))

	// A namespace that is being deleted gets no policy. No controller empties the namespace here, so it remains.
	e.Expect(e.client.Delete(e.t.Context(), vault.manifest.DeepCopy())).To(Succeed())
	policy.delete()
	safe := object{e, vault.manifest.DeepCopy()}
	safe.manifest.SetName("safe")
	safe.create()
	policy.manifest.SetNamespace("safe")
	e.Eventually(policy.field("metadata", "ownerReferences")).Should(HaveLen(1))
	e.expectNoLog("being terminated")

	e.expectNoLog(`"name": "unwatched"`)
	e.Expect(e.sample("unwatched").get("metadata", "annotations")).To(And(HaveLen(1), HaveKey(lastApplied)))
	e.expectNoLog("forbidden")
}
