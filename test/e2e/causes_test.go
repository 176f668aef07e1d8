package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("Causes", func() {
	type W = *v1.Widget

	all := func(seen *calls) *kopf.Resource[W] {
		return kopf.For(&v1.Widget{}).
			OnCreate("created", ok[W](seen, "created")).
			OnUpdate("updated", ok[W](seen, "updated")).
			OnResume("resumed", ok[W](seen, "resumed")).
			OnDelete("deleted", ok[W](seen, "deleted"))
	}

	It("are create, update and delete (CAUSE-04, CAUSE-07, CAUSE-03, CAUSE-06)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(all(seen)))

		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"created:create"}))
		Consistently(seen.all).Should(HaveLen(1))

		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(Equal([]string{"created:create", "updated:update"}))
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Finalizers = append(w.Finalizers, "foreign.example.com/keep") })
		Consistently(seen.all).Should(HaveLen(2), "a change of the finalizers must not be an update")

		remove(ctx, obj)
		Eventually(seen.all).Should(Equal([]string{"created:create", "updated:update", "deleted:delete"}))
		Eventually(func() []string { w, _ := fresh(ctx, obj)(); return w.Finalizers }).
			Should(Equal([]string{"foreign.example.com/keep"}))
		Consistently(seen.all).Should(HaveLen(3), "CAUSE-02: a deletion without our finalizer must not be handled")
		edit(ctx, obj, func(w W) { w.Finalizers = nil })
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Consistently(seen.all).Should(HaveLen(3), "CAUSE-01: the removal of the object must not be handled")
	}, SpecTimeout(minute))

	It("include resume for objects that an earlier process has handled (CAUSE-05, CAUSE-23)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		first := start(ns, options(all(seen)))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		first.stop()

		start(ns, options(all(seen)))
		Eventually(seen.all).Should(Equal([]string{"created:create", "resumed:resume"}))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(Equal([]string{"created:create", "resumed:resume", "updated:update"}))
		Consistently(seen.all).Should(HaveLen(3), "resume handlers must be called once per process")
	}, SpecTimeout(minute))
})
