package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("A finalizer", func() {
	type W = *v1.Widget

	It("can have a name without a domain, as real operators have", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).OnDelete("dropped", ok[W](seen, "dropped")), kopf.WithFinalizer("deletion.finalizers.rabbitmqclusters.rabbitmq.com")))
		existing := widget(ns, "existing")
		existing.Finalizers = []string{"deletion.finalizers.rabbitmqclusters.rabbitmq.com"}
		created := widget(ns, "created")
		create(ctx, existing)
		create(ctx, created)
		Eventually(fresh(ctx, created)).Should(HaveField("Finalizers", ConsistOf("deletion.finalizers.rabbitmqclusters.rabbitmq.com")))
		remove(ctx, existing)
		remove(ctx, created)
		Eventually(gone(ctx, existing)).Should(BeTrue())
		Eventually(gone(ctx, created)).Should(BeTrue())
		Expect(seen.all()).To(ConsistOf("dropped:delete", "dropped:delete"))
	}, SpecTimeout(minute))

	DescribeTable("is checked as the API server checks it, for", func(ctx context.Context, obj client.Object, declare kopf.Option) {
		ns := newNamespace(ctx)
		for _, name := range []string{"mine", "finalizer.keda.sh", "example.com/mine", "a.b/c_D", "my own", "a/b/c", "/a", "", "Example.com/a", "-a"} {
			created := obj.DeepCopyObject().(client.Object)
			created.SetNamespace(ns)
			created.SetName("checked")
			created.SetFinalizers([]string{name})
			rejection := k8s.Create(ctx, created, client.DryRunAll)
			refusal := kopf.New(newManager("default", &logRecorder{}), declare, kopf.WithFinalizer(name)).CheckDeclaration()
			Expect(refusal != nil).To(Equal(rejection != nil), "%q: the API server returns %v, and CheckDeclaration %v", name, rejection, refusal)
		}
	},
		Entry("custom resources", SpecTimeout(minute), &v1.Widget{}, declareDelete(&v1.Widget{})),
		Entry("ConfigMaps", SpecTimeout(minute), &corev1.ConfigMap{}, declareDelete(&corev1.ConfigMap{})),
		Entry("Deployments", SpecTimeout(minute), &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: selector, Template: podTemplate("Always")}}, declareDelete(&appsv1.Deployment{})),
		Entry("Jobs", SpecTimeout(minute), &batchv1.Job{Spec: batchv1.JobSpec{Template: podTemplate("Never")}}, declareDelete(&batchv1.Job{})),
		Entry("PodDisruptionBudgets", SpecTimeout(minute), &policyv1.PodDisruptionBudget{}, declareDelete(&policyv1.PodDisruptionBudget{})),
		Entry("HorizontalPodAutoscalers", SpecTimeout(minute), &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "a"}, MaxReplicas: 1,
		}}, declareDelete(&autoscalingv2.HorizontalPodAutoscaler{})),
	)
})

var selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}

func podTemplate(restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels},
		Spec:       corev1.PodSpec{RestartPolicy: restart, Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}
}

func declareDelete[T client.Object](obj T) kopf.Option {
	return kopf.For(obj).OnDelete("dropped", func(context.Context, *kopf.Request[T]) error { return nil })
}
