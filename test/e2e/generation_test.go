package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

var _ = Describe("The generation of an object", func() {
	type U = *unstructured.Unstructured
	// docs/children.md shows the same numbers.
	DescribeTable("increases when the engine writes annotations, but only for Deployments",
		func(ctx context.Context, group, kind string, spec map[string]any, bumps int64) {
			ns, seen := newNamespace(ctx), &calls{}
			gvk := schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}
			start(ns, options(kopf.For(kopf.Unstructured(gvk)).
				OnCreate("created", failsUntil[U](seen, "created", 1, kopf.Temporary(nil, 100*millisecond))).
				OnUpdate("updated", ok[U](seen, "updated")).
				OnDelete("deleted", ok[U](seen, "deleted"))))
			obj := untyped(gvk, ns, "one")
			obj.Object["spec"] = spec
			create(ctx, obj)
			handled(ctx, obj)
			Expect(seen.all()).To(Equal([]string{"created:create#0", "created:create#1"}))
			Expect(fresh(ctx, obj)()).To(And(HaveField("GetFinalizers()", ConsistOf(kopf.DefaultFinalizer)), HaveField("GetGeneration()", 1+2*bumps)),
				"two reconciles must write annotations; the finalizer must not increase the generation")

			edit(ctx, obj, func(u U) { u.SetLabels(map[string]string{"edited": "yes"}) })
			Eventually(seen.all).Should(ContainElement("updated:update"))
			Eventually(fresh(ctx, obj)).Should(HaveField("GetAnnotations()", HaveKeyWithValue(baselineKey, ContainSubstring("edited"))))
			Expect(fresh(ctx, obj)()).To(HaveField("GetGeneration()", 1+3*bumps), "one reconcile must write annotations")
			Consistently(fresh(ctx, obj)).Should(HaveField("GetGeneration()", 1+3*bumps))
			Expect(seen.all()).To(HaveLen(3))
			Expect(k8s.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
			Eventually(gone(ctx, obj)).Should(BeTrue())
		},
		Entry("Deployment", SpecTimeout(minute), "apps", "Deployment", selectedPods(), int64(1)),
		Entry("ReplicaSet", SpecTimeout(minute), "apps", "ReplicaSet", selectedPods(), int64(0)),
		Entry("StatefulSet", SpecTimeout(minute), "apps", "StatefulSet", selectedPods(), int64(0)),
		Entry("DaemonSet", SpecTimeout(minute), "apps", "DaemonSet", selectedPods(), int64(0)),
		Entry("Job", SpecTimeout(minute), "batch", "Job", map[string]any{"template": oncePods()}, int64(0)),
		Entry("CronJob", SpecTimeout(minute), "batch", "CronJob",
			map[string]any{"schedule": "0 0 * * *", "jobTemplate": map[string]any{"spec": map[string]any{"template": oncePods()}}}, int64(0)),
		Entry("Pod", SpecTimeout(minute), "", "Pod", map[string]any{"containers": []any{map[string]any{"name": "c", "image": "c"}}}, int64(0)),
		Entry("Ingress", SpecTimeout(minute), "networking.k8s.io", "Ingress",
			map[string]any{"defaultBackend": map[string]any{"service": map[string]any{"name": "a", "port": map[string]any{"number": int64(80)}}}}, int64(0)),
		Entry("NetworkPolicy", SpecTimeout(minute), "networking.k8s.io", "NetworkPolicy", map[string]any{"podSelector": map[string]any{}}, int64(0)),
		Entry("PodDisruptionBudget", SpecTimeout(minute), "policy", "PodDisruptionBudget", map[string]any{"minAvailable": int64(1)}, int64(0)),
		Entry("a custom resource", SpecTimeout(minute), widgetGVK.Group, widgetGVK.Kind, map[string]any{"size": int64(1)}, int64(0)),
	)
})

func oncePods() map[string]any {
	return map[string]any{"spec": map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{"name": "c", "image": "c"}}}}
}

func selectedPods() map[string]any {
	labels := map[string]any{"app": "a"}
	return map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
		"metadata": map[string]any{"labels": labels},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "c"}}},
	}}
}
