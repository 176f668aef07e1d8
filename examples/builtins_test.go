package examples

import (
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	e.Eventually(once.field("metadata", "annotations", lastHandled)).Should(ContainSubstring(`"status":{"phase":"Running"}`))
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

	// A namespace that is being deleted gets no policy. No controller empties the namespace here, so it remains. The cache of the operator
	// receives the changes of namespaces in order, so it contains the deletion when the operator has isolated a later namespace.
	e.Expect(e.client.Delete(e.t.Context(), vault.manifest.DeepCopy())).To(Succeed())
	safe, other := object{e, vault.manifest.DeepCopy()}, object{e, policy.manifest.DeepCopy()}
	safe.manifest.SetName("safe")
	other.manifest.SetNamespace("safe")
	safe.create()
	e.Eventually(other.field("metadata", "ownerReferences")).Should(HaveLen(1))
	policy.delete()
	old = other.get("metadata", "uid")
	e.Expect(e.client.Delete(e.t.Context(), other.manifest.DeepCopy())).To(Succeed())
	e.Eventually(other.field("metadata", "uid")).ShouldNot(Equal(old), "the operator handles this deletion after the one before")
	e.expectNoLog("being terminated")
	_, err := policy.read()
	e.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the operator has created the policy again: %v", err)

	e.expectNoLog(`"name": "unwatched"`)
	e.Expect(e.sample("unwatched").get("metadata", "annotations")).To(And(HaveLen(1), HaveKey(lastApplied)))
	e.expectNoLog("forbidden")
}
