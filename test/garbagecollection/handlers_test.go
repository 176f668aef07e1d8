package garbagecollection

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("A parent with handlers", func() {
	// parents returns handlers that create a child with the given finalizers and record the deletion of the parent.
	parents := func(seen *callLog, finalizers ...string) *kopf.Resource[*v1.Widget] {
		return kopf.For(&v1.Widget{}).
			OnCreate("create-child", func(ctx context.Context, req *kopf.Request[*v1.Widget]) error {
				child := configMap("", children.Name(req.Object, "child"))
				child.Finalizers = finalizers
				_, err := children.Of(req.Object, req.Client).Create(ctx, child)
				return err
			}).
			OnDelete("deleted", succeedOnRetry[*v1.Widget](seen))
	}
	born := func(ctx context.Context, ns string) (parent *v1.Widget, child *corev1.ConfigMap) {
		GinkgoHelper()
		parent, child = widget(ns, "one"), configMap(ns, "one-child")
		create(ctx, parent)
		Eventually(func() error { return k8s.Get(ctx, client.ObjectKeyFromObject(child), child) }).Should(Succeed())
		return parent, child
	}

	It("is handled once and waits for its children during a foreground deletion (FIN-14)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &callLog{}
		start(ns, parents(seen, holdFinalizer))
		parent, child := born(ctx, ns)
		remove(ctx, parent, foreground)
		Eventually(fresh(ctx, parent)).Should(HaveField("Finalizers", ConsistOf(metav1.FinalizerDeleteDependents)),
			"the operator must remove its finalizer and keep the finalizer of Kubernetes")
		Consistently(gone(ctx, parent)).Should(BeFalse())
		edit(ctx, child, func(cm *corev1.ConfigMap) { cm.Finalizers = nil })
		Eventually(remaining(ctx, parent, child)).Should(BeEmpty())
		Consistently(seen.of).WithArguments(parent).Should(Equal([]string{"delete#0", "delete#1"}))
	}, SpecTimeout(minute))

	It("keeps its children until its delete handler has succeeded in a background deletion", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &callLog{}
		stop := start(ns, parents(seen))
		parent, child := born(ctx, ns)
		Eventually(fresh(ctx, parent)).Should(HaveField("Annotations", HaveKey(baselineKey)))
		stop()
		remove(ctx, parent, background)
		Consistently(remaining(ctx, parent, child)).Should(HaveLen(2), "both objects must exist while no operator runs")
		start(ns, parents(seen))
		Eventually(remaining(ctx, parent, child)).Should(BeEmpty())
		Expect(seen.of(parent)).To(Equal([]string{"delete#0", "delete#1"}))
	}, SpecTimeout(minute))

	It("is handled when its namespace is deleted", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &callLog{}
		start(ns, parents(seen))
		parent, child := born(ctx, ns)
		Eventually(fresh(ctx, parent)).Should(HaveField("Annotations", HaveKey(baselineKey)))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)).To(Succeed())
		remove(ctx, namespace, background)
		Eventually(remaining(ctx, parent, child, namespace), "40s").Should(BeEmpty())
		Expect(seen.of(parent)).To(Equal([]string{"delete#0", "delete#1"}))
	}, SpecTimeout(minute))
})
