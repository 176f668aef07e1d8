package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("A reconciler wrapper", func() {
	It("wraps every reconcile; the last wrapper is outermost", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		wrap := func(name string) kopf.Option {
			return kopf.WithReconcilerWrapper(func(inner reconcile.Reconciler) reconcile.Reconciler {
				return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					seen.notef("%s before %s", name, req.Name)
					result, err := inner.Reconcile(ctx, req)
					seen.notef("%s after", name)
					return result, err
				})
			})
		}
		start(ns, options(
			kopf.For(&v1.Widget{}).OnCreate("created", ok[*v1.Widget](seen, "created")),
			wrap("inner"), wrap("outer")))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Eventually(func() []string { all := seen.all(); return all[:min(5, len(all))] }).Should(Equal([]string{
			"outer before one", "inner before one", "created:create", "inner after", "outer after"}))
	}, SpecTimeout(minute))
})
