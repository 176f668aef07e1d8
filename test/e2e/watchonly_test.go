package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

var _ = Describe("WatchOnly", func() {
	type P = *corev1.Pod

	// In the two cases, the operator has caches for all namespaces, and for each namespace.
	DescribeTable("watches one kind by its fields and labels, and others as usual, with", func(ctx context.Context, more ...kopf.Option) {
		ns, seen := newNamespace(ctx), &calls{}
		pods := kopf.For(&corev1.Pod{}, kopf.WatchOnly(
			client.MatchingLabels{"watched": ns}, client.MatchingFieldsSelector{Selector: fields.ParseSelectorOrDie("status.phase=Running")},
		)).
			OnCreate("created", ok[P](seen, "created")).
			OnDelete("deleted", ok[P](seen, "deleted")).
			Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[P]) error {
				seen.notef("daemon of %s", req.Object.Name)
				<-ctx.Done()
				seen.notef("%v", context.Cause(ctx))
				return nil
			})
		maps := kopf.For(&corev1.ConfigMap{}).OnCreate("map", ok[*corev1.ConfigMap](seen, "map"), kopf.Label("watched"))
		op := start(ns, append(options(pods, maps, kopf.WithFinalizer("example.com/"+ns)), more...))
		defer op.stop()
		pod := func(name, label string) *corev1.Pod {
			created := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"watched": label}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/app"}}},
			}
			create(ctx, created)
			return created
		}
		becomes := func(p *corev1.Pod, phase corev1.PodPhase) {
			before := p.DeepCopy()
			p.Status.Phase = phase
			Expect(k8s.Status().Patch(ctx, p, client.MergeFrom(before))).To(Succeed())
		}
		a, b, c := pod("a", ns), pod("b", ns), pod("c", "other")
		create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "m", Labels: map[string]string{"watched": "any"}}})
		becomes(a, corev1.PodRunning)
		becomes(c, corev1.PodRunning)
		Eventually(seen.all).Should(ConsistOf("map:create", "created:create", "daemon of a"))

		becomes(a, corev1.PodSucceeded)
		Eventually(seen.all).Should(ContainElement(daemons.ErrOutOfScope.Error()))
		Expect(seen.all()).NotTo(ContainElement("deleted:delete"))
		becomes(a, corev1.PodRunning)
		Eventually(seen.all).Should(ConsistOf("map:create", "created:create", "daemon of a", daemons.ErrOutOfScope.Error(), "daemon of a"))

		becomes(b, corev1.PodRunning)
		Eventually(seen.all).Should(ContainElement("daemon of b"))
		remove(ctx, b)
		Eventually(gone(ctx, b)).Should(BeTrue())
		Expect(seen.all()).To(ContainElement("deleted:delete"))
		Consistently(fresh(ctx, c)).WithTimeout(time.Second).Should(HaveField("Finalizers", BeEmpty()))
	},
		Entry("one cache", SpecTimeout(minute)),
		Entry("a cache for each namespace", SpecTimeout(minute), kopf.WithNamespaceFunc(func(*corev1.Namespace) bool { return true })),
	)

	It("says that the API server cannot select a field", func(ctx context.Context) {
		ns := newNamespace(ctx)
		op := launchOperator(&logRecorder{}, options(kopf.For(&corev1.ConfigMap{}, kopf.WatchOnly(client.MatchingFields{"data.a": "b"})).
			OnCreate("created", func(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil }), kopf.WithNamespaces(ns), kopf.WithWatchCheck(100*millisecond)))
		Eventually(func() error { return op.Readyz(nil) }).Should(MatchError(ContainSubstring("data.a")))
	}, SpecTimeout(minute))
})
