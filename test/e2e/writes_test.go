package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

type untypedHandler = kopf.Handler[*unstructured.Unstructured]

var _ = Describe("A cycle of one reconcile", func() {
	// writesDuring runs a step and returns the writes to the object and to its status.
	writesDuring := func(ctx context.Context, plural string, step func()) (object, status controlplane.Counts) {
		GinkgoHelper()
		count := func(subresource string) controlplane.Counts {
			counts, err := cp.Writes(ctx, plural, subresource)
			Expect(err).NotTo(HaveOccurred())
			return counts
		}
		object, status = count(""), count("status")
		step()
		return count("").Since(object), count("status").Since(status)
	}

	withResult := func(seen *calls, id string) untypedHandler {
		return func(_ context.Context, req *kopf.Request[*unstructured.Unstructured]) error {
			seen.notef("%s", id)
			req.SetResult(map[string]any{"ready": true})
			return nil
		}
	}

	type budget struct {
		gvk            schema.GroupVersionKind
		plural         string
		handlers       int
		finalizer      bool
		main, onStatus int
	}

	DescribeTable("takes one request for the object, one for the status, and one for the finalizer",
		func(ctx context.Context, b budget) {
			ns, seen := newNamespace(ctx), &calls{}
			resource := kopf.For(kopf.Unstructured(b.gvk))
			for _, id := range fiveHandlers[:b.handlers] {
				resource.OnCreate(id, withResult(seen, id))
			}
			if b.finalizer {
				resource.OnDelete("bye", ok[*unstructured.Unstructured](seen, "bye"))
			}
			first := start(ns, options(resource))

			obj := untyped(b.gvk, ns, "one")
			object, status := writesDuring(ctx, b.plural, func() {
				create(ctx, obj)
				handled(ctx, obj)
				Consistently(seen.all).Should(HaveLen(b.handlers))
			})
			Expect(object).To(Equal(controlplane.Counts{"POST 201": 1, "PATCH 200": b.main}))
			Expect(status.Total()).To(Equal(b.onStatus))

			By("restarting the operator with a handled object")
			first.stop()
			object, status = writesDuring(ctx, b.plural, func() {
				again := start(ns, options(resource))
				Expect(again.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
				Consistently(seen.all).Should(HaveLen(b.handlers))
			})
			Expect(object).To(BeEmpty())
			Expect(status).To(BeEmpty())

			if !b.finalizer {
				return
			}
			By("deleting the object")
			object, status = writesDuring(ctx, b.plural, func() {
				remove(ctx, obj)
				Eventually(gone(ctx, obj)).Should(BeTrue())
				Consistently(seen.count).WithArguments("bye:delete").Should(Equal(1))
			})
			Expect(object).To(Equal(controlplane.Counts{"DELETE 200": 1, "PATCH 200": 1}))
			Expect(status).To(BeEmpty())
		},
		Entry("one handler, no status subresource", SpecTimeout(minute), budget{gadgetGVK, "gadgets", 1, false, 1, 0}),
		Entry("one handler, status subresource", SpecTimeout(minute), budget{widgetGVK, "widgets", 1, false, 1, 1}),
		Entry("one handler, finalizer", SpecTimeout(minute), budget{gadgetGVK, "gadgets", 1, true, 2, 0}),
		Entry("one handler, finalizer, status subresource", SpecTimeout(minute), budget{widgetGVK, "widgets", 1, true, 2, 1}),
		Entry("five quick handlers, no status subresource (LIFE-03, LIFE-04, LIFE-05, SE-22)", SpecTimeout(minute), budget{gadgetGVK, "gadgets", 5, false, 1, 0}),
		Entry("five quick handlers, finalizer, status subresource", SpecTimeout(minute), budget{widgetGVK, "widgets", 5, true, 2, 1}),
	)
})
