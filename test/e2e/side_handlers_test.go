package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("Event and index handlers", func() {
	type W = *v1.Widget

	It("are all called in every reconcile, for any lifecycle, and log nothing (LIFE-07, PIPE-22, IDX-18)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		record := func(id string) kopf.Handler[W] {
			return func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s, finalizer: %t", id, len(req.Object.Finalizers) > 0)
				return nil
			}
		}
		widgets := kopf.For(&v1.Widget{}).
			OnEvent("one", record("one")).
			OnEvent("two", record("two")).
			OnDelete("deleted", ok[W](&calls{}, "deleted"))
		bySize := kopf.IndexBy(widgets, "size", func(_ context.Context, req *kopf.Request[W]) (map[int]string, error) {
			return map[int]string{req.Object.Spec.Size: req.Object.Name}, nil
		})
		op := start(ns, options(widgets, kopf.WithLifecycle(progress.OneByOne)))
		create(ctx, widget(ns, "a"))
		// The reconcile that adds the finalizer calls no cause handlers.
		Eventually(seen.all).Should(ContainElements("one, finalizer: false", "two, finalizer: false", "one, finalizer: true", "two, finalizer: true"))
		Expect(bySize.Get(1)).To(Equal([]string{"a"}))
		for _, id := range []string{"one", "two", "size"} {
			Expect(op.log.find("Handler succeeded", `"handler"="`+id+`"`, `"level"=0`)).To(BeEmpty())
			Expect(op.log.find("Handler succeeded", `"handler"="`+id+`"`, `"level"=1`)).NotTo(BeEmpty())
		}
	}, SpecTimeout(minute))
})

var _ = Describe("A result", func() {
	type W = *v1.Widget

	It("remains when its handler returns no new result (RES-08)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		said := false
		start(ns, options(kopf.For(&v1.Widget{}).
			On("record", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, func(_ context.Context, req *kopf.Request[W]) error {
				if !said {
					said = true
					req.SetResult("once")
				}
				return nil
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(func() (string, error) {
			now, err := fresh(ctx, obj)()
			return now.Annotations[baselineKey], err
		}).Should(ContainSubstring(`"size":2`))
		Expect(valueAt(ctx, untyped(widgetGVK, ns, "one"), "status", "record")()).To(Equal("once"))
	}, SpecTimeout(minute))
})
