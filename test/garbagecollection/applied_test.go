package garbagecollection

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

const (
	fieldOwner = "collection"
	appliedKey = "kopf-runtime.dev/applied." + fieldOwner
)

// serverOf returns the deployment of a widget, with its size and color.
func serverOf(w *v1.Widget) *appsv1.Deployment {
	d := deployment("", children.Name(w, "server"), int32(w.Spec.Size)) //nolint:gosec // the sizes in these tests are small
	image(w.Spec.Color)(d)
	return d
}

func apply(ctx context.Context, c client.Client, w *v1.Widget, opts ...children.Option) (children.Result, error) {
	results, err := children.Of(w, c, append(opts, children.FieldOwner(fieldOwner))...).Apply(ctx, serverOf(w))
	if err != nil {
		return children.Result{}, err
	}
	return results[0], nil
}

var _ = Describe("A deployment that is applied as a child", func() {
	applied := func(ctx context.Context, req *kopf.Request[*v1.Widget]) error {
		_, err := apply(ctx, req.Client, req.Object)
		return err
	}
	running := func(ctx context.Context, seen *callLog) (*v1.Widget, *writeLog) {
		GinkgoHelper()
		ns := newNamespace(ctx)
		written := newWriteLog(ns)
		start(ns,
			kopf.For(&v1.Widget{}).OnCreate("applied", applied).OnUpdate("applied-again", applied),
			all(&appsv1.Deployment{}, seen), all(&appsv1.ReplicaSet{}, seen))
		parent := widget(ns, "one")
		parent.Spec.Size, parent.Spec.Color = 0, "main:1"
		create(ctx, parent)
		written.awaitQuiet()
		return parent, written
	}
	// hash returns the annotation with the applied hash.
	hash := func(ctx context.Context, parent *v1.Widget) string {
		GinkgoHelper()
		child := serverOf(parent)
		child.Namespace = parent.Namespace
		now, err := fresh(ctx, child)()
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Annotations).To(HaveKeyWithValue(appliedKey, Not(BeEmpty())))
		return now.Annotations[appliedKey]
	}

	It("keeps its replica set when only its applied hash and its size change", func(ctx context.Context) {
		seen := &callLog{}
		parent, written := running(ctx, seen)
		first := hash(ctx, parent)
		Expect(replicaSets(ctx, parent.Namespace)["main:1"].Annotations).To(HaveKeyWithValue(appliedKey, first))

		edit(ctx, parent, func(w *v1.Widget) { w.Spec.Size = 2 })
		written.awaitQuiet()
		second := hash(ctx, parent)
		Expect(second).NotTo(Equal(first))
		sets := replicaSets(ctx, parent.Namespace)
		Expect(sets).To(HaveLen(1), "a changed hash must not cause a rollout")
		Expect(sets["main:1"].Annotations).To(HaveKeyWithValue(appliedKey, second))
		Expect(sets["main:1"].Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))

		edit(ctx, parent, func(w *v1.Widget) { w.Spec.Color = "main:2" })
		written.awaitQuiet()
		sets = replicaSets(ctx, parent.Namespace)
		Expect(sets).To(HaveLen(2), "a changed image must cause a rollout")
		for name, set := range sets {
			Expect(seen.count(set, "create#0")).To(Equal(1), name)
			Expect(set.Spec.Template.Annotations).To(BeEmpty())
		}
		Expect(written.count(isOperator)).To(HaveKeyWithValue("patch widgets", 3))
		// A changed hash must not trigger the update handlers of the deployment or of the replica set.
		Expect(seen.changes(sets["main:1"].Name)).NotTo(ContainElement(ContainSubstring(appliedKey)))
		Expect(seen.changes(children.Name(parent, "server") + "-")).To(HaveEach(Or(
			ContainSubstring("deployment.kubernetes.io/"), Equal("spec.replicas"))))

		By("applying the unchanged child again")
		written = newWriteLog(parent.Namespace)
		for range 3 {
			result, err := apply(ctx, k8s, parent)
			Expect(err).NotTo(HaveOccurred())
			Expect(result.Operation).To(Equal(controllerutil.OperationResultNone))
		}
		written.awaitQuiet()
		Expect(written.read()).To(BeEmpty())

		By("deleting the parent")
		child := serverOf(parent)
		child.Namespace = parent.Namespace
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(child), child)).To(Succeed())
		remove(ctx, parent, background)
		Eventually(remaining(ctx, parent, child, sets["main:1"], sets["main:2"])).Should(BeEmpty())
	}, SpecTimeout(2*minute))

	It("is corrected after kubectl rollout undo, which restores an older hash", func(ctx context.Context) {
		ns := newNamespace(ctx)
		written := newWriteLog(ns)
		parent := widget(ns, "one")
		create(ctx, parent)
		for _, name := range []string{"main:1", "main:2"} {
			parent.Spec.Size, parent.Spec.Color = 0, name
			_, err := apply(ctx, k8s, parent)
			Expect(err).NotTo(HaveOccurred())
			written.awaitQuiet()
		}
		wanted := hash(ctx, parent)
		child := serverOf(parent)
		child.Namespace = ns
		undo(ctx, child, replicaSets(ctx, ns)["main:1"])
		written.awaitQuiet()
		Expect(hash(ctx, parent)).NotTo(Equal(wanted))

		result, err := apply(ctx, k8s, parent)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Operation).To(Equal(controllerutil.OperationResultUpdated))
		Expect(hash(ctx, parent)).To(Equal(wanted))
		written.awaitQuiet()
		Expect(fresh(ctx, child)()).To(HaveField("Spec.Template.Spec.Containers", ConsistOf(HaveField("Image", "main:2"))))
		Expect(replicaSets(ctx, ns)).To(HaveLen(2))
		result, err = apply(ctx, k8s, parent)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Operation).To(Equal(controllerutil.OperationResultNone))
	}, SpecTimeout(2*minute))
})
