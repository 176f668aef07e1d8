package garbagecollection

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
)

const (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan

	holdFinalizer = "collection.example.com/hold" // a finalizer that no controller removes
)

var _ = Describe("Children", func() {
	// family returns typed and unstructured children of built-in and custom kinds. Most of them have no name yet.
	family := func() []client.Object {
		service := untyped("v1", "Service", "", "")
		service.Object["spec"] = map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}
		return []client.Object{
			&corev1.ConfigMap{}, &corev1.ConfigMap{}, &corev1.Secret{}, deployment("", "server", 2), widget("", "typed-child"),
			service, untyped("v1", "ServiceAccount", "", ""), untyped("e2e.example.com/v1", "Widget", "", "loose-child"),
		}
	}
	// started waits for the replica set and the pods of a deployment.
	started := func(ctx context.Context, ns string) []client.Object {
		GinkgoHelper()
		var sets appsv1.ReplicaSetList
		var pods corev1.PodList
		Eventually(func(g Gomega) {
			g.Expect(k8s.List(ctx, &sets, client.InNamespace(ns))).To(Succeed())
			g.Expect(k8s.List(ctx, &pods, client.InNamespace(ns))).To(Succeed())
			g.Expect(sets.Items).To(HaveLen(1))
			g.Expect(pods.Items).To(HaveLen(2))
		}).Should(Succeed())
		return []client.Object{&sets.Items[0], &pods.Items[0], &pods.Items[1]}
	}

	DescribeTable("are deleted together with the parent that adopted them (HIER-03, HIER-10)",
		func(ctx context.Context, how metav1.DeletionPropagation, opts ...children.Option) {
			ns := newNamespace(ctx)
			parent, unrelated := widget(ns, "parent"), configMap(ns, "unrelated")
			create(ctx, parent, unrelated)
			all := family()
			Expect(children.Of(parent, k8s, opts...).Adopt(all...)).To(Succeed())
			create(ctx, all...)
			all = append(all, started(ctx, ns)...)
			grandchild := configMap(ns, "grandchild")
			Expect(children.Of(all[4], k8s).Adopt(grandchild)).To(Succeed())
			create(ctx, grandchild)
			all = append(all, grandchild, parent)
			Consistently(remaining(ctx, all...), "500ms").Should(HaveLen(len(all)), "the children must remain while the parent exists")

			remove(ctx, parent, how)
			Eventually(remaining(ctx, all...)).Should(BeEmpty())
			Expect(isGone(ctx, unrelated)).To(BeFalse())
		},
		Entry("in the background", SpecTimeout(minute), background),
		Entry("in the foreground", SpecTimeout(minute), foreground),
		Entry("in the background, not controlled", SpecTimeout(minute), background, children.Controller(false)),
		Entry("in the foreground, not blocking", SpecTimeout(minute), foreground, children.BlockOwnerDeletion(false)),
	)

	It("are deleted together with the parent that applied or created them", func(ctx context.Context) {
		ns := newNamespace(ctx)
		parent := widget(ns, "parent")
		create(ctx, parent)
		owner := children.Of(parent, k8s, children.FieldOwner("collection"))
		applied, err := owner.Apply(ctx, configMap("", "applied"), untyped("v1", "ConfigMap", "", "applied-untyped"))
		Expect(err).NotTo(HaveOccurred())
		created, err := owner.Create(ctx, configMap("", "created"), untyped("v1", "ConfigMap", "", "created-untyped"))
		Expect(err).NotTo(HaveOccurred())
		var all []client.Object
		for _, result := range append(applied, created...) {
			Expect(result.Operation).To(Equal(controllerutil.OperationResultCreated))
			all = append(all, result.Object)
		}
		remove(ctx, parent, background)
		Eventually(remaining(ctx, all...)).Should(BeEmpty())
	}, SpecTimeout(minute))

	It("are deleted together with a cluster-scoped parent", func(ctx context.Context) {
		ns := newNamespace(ctx)
		parent := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "parent-"}}
		create(ctx, parent)
		typed, loose := &corev1.ConfigMap{}, untyped("v1", "Secret", "", "")
		Expect(children.Of(parent, k8s, children.InNamespace(ns)).Adopt(typed, loose)).To(Succeed())
		create(ctx, typed, loose)
		Consistently(remaining(ctx, typed, loose), "500ms").Should(HaveLen(2))
		remove(ctx, parent, background)
		Eventually(remaining(ctx, typed, loose)).Should(BeEmpty())
	}, SpecTimeout(minute))

	It("block the foreground deletion of their parent with BlockOwnerDeletion (HIER-03)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		for _, blocks := range []bool{true, false} {
			parent, child := widget(ns, "parent"), configMap("", "child")
			create(ctx, parent)
			child.Finalizers = []string{holdFinalizer}
			Expect(children.Of(parent, k8s, children.BlockOwnerDeletion(blocks)).Adopt(child)).To(Succeed())
			create(ctx, child)

			remove(ctx, parent, foreground)
			Eventually(fresh(ctx, child)).Should(HaveField("DeletionTimestamp", Not(BeNil())))
			if blocks {
				Consistently(fresh(ctx, parent)).Should(HaveField("Finalizers", ConsistOf(metav1.FinalizerDeleteDependents)))
			} else {
				Eventually(gone(ctx, parent)).Should(BeTrue())
				Expect(isGone(ctx, child)).To(BeFalse())
			}
			edit(ctx, child, func(cm *corev1.ConfigMap) { cm.Finalizers = nil })
			Eventually(remaining(ctx, parent, child)).Should(BeEmpty())
		}
	}, SpecTimeout(minute))

	It("are not deleted with a parent that has orphaned or released them (HIER-04)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		parent, orphaned, released := widget(ns, "parent"), configMap("", "orphaned"), configMap("", "released")
		create(ctx, parent)
		owner := children.Of(parent, k8s)
		Expect(owner.Adopt(orphaned, released)).To(Succeed())
		create(ctx, orphaned, released)
		edit(ctx, released, func(cm *corev1.ConfigMap) { Expect(owner.RemoveReference(cm)).To(Succeed()) })
		remove(ctx, parent, orphan)
		Eventually(gone(ctx, parent)).Should(BeTrue())
		Consistently(remaining(ctx, orphaned, released)).Should(HaveLen(2))
		Expect(fresh(ctx, orphaned)()).To(HaveField("OwnerReferences", BeEmpty()))
	}, SpecTimeout(minute))

	It("of several parents are deleted together with the last parent", func(ctx context.Context) {
		ns := newNamespace(ctx)
		first, second, child := widget(ns, "first"), widget(ns, "second"), configMap("", "child")
		create(ctx, first, second)
		Expect(children.Of(first, k8s).Adopt(child)).To(Succeed())
		Expect(children.Of(second, k8s, children.Controller(false)).AppendReference(child)).To(Succeed())
		create(ctx, child)
		remove(ctx, first, background)
		Eventually(fresh(ctx, child)).Should(HaveField("OwnerReferences", ConsistOf(HaveField("UID", second.UID))))
		remove(ctx, second, background)
		Eventually(gone(ctx, child)).Should(BeTrue())
	}, SpecTimeout(minute))

	It("of a recreated parent are distinct from the children of the old parent (B-06)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		before, after := widget(ns, "parent"), widget(ns, "parent")
		create(ctx, before)
		apply := func(parent client.Object) ([]children.Result, error) {
			return children.Of(parent, k8s, children.FieldOwner("collection")).Apply(ctx, configMap("", "child"))
		}
		results, err := apply(before)
		Expect(err).NotTo(HaveOccurred())
		old := results[0].Object
		remove(ctx, before, background)
		create(ctx, after)
		// While the old child exists, Apply fails. Afterwards, Apply creates a new child, which the garbage collector keeps.
		Eventually(func() error { results, err = apply(after); return err }).Should(Succeed())
		Expect(results[0].Object.GetUID()).NotTo(Equal(old.GetUID()))
		Consistently(remaining(ctx, results[0].Object)).Should(HaveLen(1))
	}, SpecTimeout(minute))

	It("in another namespace are rejected, because they would be garbage-collected (HIER-12, SE-57)", func(ctx context.Context) {
		ns, other := newNamespace(ctx), newNamespace(ctx)
		parent, near, far := widget(ns, "parent"), configMap(ns, "near"), configMap(other, "far")
		create(ctx, parent)
		owner := children.Of(parent, k8s)
		Expect(owner.Adopt(near)).To(Succeed())
		Expect(owner.Adopt(far)).To(MatchError(ContainSubstring("namespace")))
		Expect(far.OwnerReferences).To(BeEmpty())
		far.OwnerReferences = near.OwnerReferences
		create(ctx, near, far)
		Eventually(gone(ctx, far)).Should(BeTrue())
		Expect(isGone(ctx, near)).To(BeFalse())
	}, SpecTimeout(minute))
})
