package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("An optional delete handler (B-25)", func() {
	type W = *v1.Widget
	const foreign = "foreign.example.com/keep"

	resource := func(seen *calls) *kopf.Resource[W] {
		return kopf.For(&v1.Widget{}).
			OnCreate("created", ok[W](seen, "created")).
			OnDelete("optional", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("optional:%s size %d", req.Reason, req.Object.Spec.Size)
				return nil
			}, kopf.Optional())
	}

	It("does not block the deletion, and receives the last state (SE-05)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(resource(seen)))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(HaveField("Finalizers", BeEmpty()))
		remove(ctx, obj)
		Eventually(seen.all).Should(Equal([]string{"created:create", "optional:delete size 1"}))
		Expect(gone(ctx, obj)()).To(BeTrue())
		Consistently(seen.all).Should(HaveLen(2))
	}, SpecTimeout(minute))

	It("is called once when other finalizers block the deletion, and not again by the next process", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		first := start(ns, options(resource(seen)))
		obj := widget(ns, "one")
		obj.Finalizers = []string{foreign}
		create(ctx, obj)
		handled(ctx, obj)
		remove(ctx, obj)
		Eventually(seen.all).Should(Equal([]string{"created:create", "optional:delete size 1"}))
		edit(ctx, obj, func(w W) { w.Labels = map[string]string{"seen": "again"} })
		Consistently(seen.all).Should(HaveLen(2))

		first.stop()
		second := start(ns, options(resource(seen)))
		Expect(second.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
		edit(ctx, obj, func(w W) { w.Finalizers = nil })
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Consistently(seen.all).Should(HaveLen(2))
	}, SpecTimeout(minute))

	It("is called with the others when a mandatory handler blocks the deletion (FIN-15)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(resource(seen).OnDelete("mandatory", ok[W](seen, "mandatory"))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Consistently(seen.all).Should(Equal([]string{"created:create", "optional:delete size 1", "mandatory:delete"}))
	}, SpecTimeout(minute))
})
