package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("Two operators on one object", func() {
	type W = *v1.Widget

	It("do not read each other's state (B-34, MIG-05, SET-36, SET-37, SET-38)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		seen := map[string]*calls{"alpha.example.com": {}, "beta.example.com": {}}
		for prefix, c := range seen {
			start(ns, options(
				kopf.For(&v1.Widget{}).
					OnCreate("same", failsUntil[W](c, "same", 1, kopf.Temporary(nil, 200*millisecond))).
					OnUpdate("updated", ok[W](c, "updated")).
					OnDelete("deleted", ok[W](c, "deleted")),
				kopf.WithFinalizer(prefix+"/finalizer"),
				kopf.WithProgress(progress.Annotations(prefix)),
				kopf.WithBaseline(progress.AnnotationBaseline(prefix)),
			))
		}
		obj := widget(ns, "one")
		create(ctx, obj)
		created := []string{"same:create#0", "same:create#1"}
		for prefix, c := range seen {
			Eventually(c.all).Should(Equal(created))
			Eventually(func() map[string]string { w, _ := fresh(ctx, obj)(); return w.Annotations }).Should(And(
				HaveKey(prefix+"/last-handled-configuration"), HaveKeyWithValue(prefix+"/kopf-managed", "yes"),
				Not(HaveKey(prefix+"/same"))))
		}
		Expect(fresh(ctx, obj)()).To(HaveField("Finalizers",
			ConsistOf("alpha.example.com/finalizer", "beta.example.com/finalizer")))
		settled, err := fresh(ctx, obj)()
		Expect(err).NotTo(HaveOccurred())
		Consistently(func() string { w, _ := fresh(ctx, obj)(); return w.ResourceVersion }).
			Should(Equal(settled.ResourceVersion), "the operators must not write in response to each other")

		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		for _, c := range seen {
			Eventually(c.all).Should(Equal(append(created[:2:2], "updated:update")))
		}
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		for _, c := range seen {
			Expect(c.all()).To(Equal(append(created[:2:2], "updated:update", "deleted:delete")))
		}
	}, SpecTimeout(minute))
})
