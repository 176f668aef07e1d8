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
	// parents create a child, with a finalizer of nobody's if it is told so, and note when they are deleted.
	parents := func(seen *diary, finalizers ...string) *kopf.Resource[*v1.Widget] {
		return kopf.For(&v1.Widget{}).
			OnCreate("create-child", func(ctx context.Context, req *kopf.Request[*v1.Widget]) error {
				child := configMap("", children.Name(req.Object, "child"))
				child.Finalizers = finalizers
				_, err := children.Of(req.Object, req.Client).Create(ctx, child)
				return err
			}).
			OnDelete("deleted", secondTime[*v1.Widget](seen))
	}
	born := func(ctx context.Context, ns string) (parent *v1.Widget, child *corev1.ConfigMap) {
		GinkgoHelper()
		parent, child = widget(ns, "one"), configMap(ns, "one-child")
		create(ctx, parent)
		Eventually(func() error { return k8s.Get(ctx, client.ObjectKeyFromObject(child), child) }).Should(Succeed())
		return parent, child
	}

	It("that is deleted in the foreground is handled once, and waits for its children (FIN-14)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &diary{}
		start(ns, parents(seen, hold))
		parent, child := born(ctx, ns)
		remove(ctx, parent, foreground)
		Eventually(fresh(ctx, parent)).Should(HaveField("Finalizers", ConsistOf(metav1.FinalizerDeleteDependents)),
			"our finalizer goes, that of Kubernetes stays")
		Consistently(goneFunc(ctx, parent)).Should(BeFalse())
		edit(ctx, child, func(cm *corev1.ConfigMap) { cm.Finalizers = nil })
		Eventually(left(ctx, parent, child)).Should(BeEmpty())
		Consistently(seen.of).WithArguments(parent).Should(Equal([]string{"delete#0", "delete#1"}))
	}, SpecTimeout(minute))

	It("that is deleted in the background keeps its children until it is handled", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &diary{}
		stop := start(ns, parents(seen))
		parent, child := born(ctx, ns)
		Eventually(fresh(ctx, parent)).Should(HaveField("Annotations", HaveKey(baselineKey)))
		stop()
		remove(ctx, parent, background)
		Consistently(left(ctx, parent, child)).Should(HaveLen(2), "nobody is there to handle it")
		start(ns, parents(seen))
		Eventually(left(ctx, parent, child)).Should(BeEmpty())
		Expect(seen.of(parent)).To(Equal([]string{"delete#0", "delete#1"}))
	}, SpecTimeout(minute))

	It("is handled when its namespace is deleted, which ends then", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &diary{}
		start(ns, parents(seen))
		parent, child := born(ctx, ns)
		Eventually(fresh(ctx, parent)).Should(HaveField("Annotations", HaveKey(baselineKey)))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)).To(Succeed())
		remove(ctx, namespace, background)
		Eventually(left(ctx, parent, child, namespace), "40s").Should(BeEmpty())
		Expect(seen.of(parent)).To(Equal([]string{"delete#0", "delete#1"}))
	}, SpecTimeout(minute))
})
