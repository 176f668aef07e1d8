package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

var _ = Describe("A write that changes nothing", func() {
	type U = *unstructured.Unstructured

	It("causes no consistency wait (CONS-14, SE-10)", func(ctx context.Context) {
		ns, seen, post := newNamespace(ctx), &calls{}, &patchRecorder{}
		operator := start(ns, options(kopf.For(kopf.Unstructured(strictGVK)).
			OnReconcile("sync", func(_ context.Context, req *kopf.Request[U]) error {
				size, _, _ := unstructured.NestedInt64(req.Object.Object, "spec", "size")
				seen.notef("%d", size)
				return unstructured.SetNestedField(req.Object.Object, "dropped", "status", "unknown")
			})), post.setup())
		obj := untyped(strictGVK, ns, "one")
		create(ctx, obj)
		Eventually(seen.all).Should(Equal([]string{"1"}))
		resize := func(size int64) {
			GinkgoHelper()
			edit(ctx, obj, func(u U) { must(unstructured.SetNestedField(u.Object, size, "spec", "size")) })
		}
		Eventually(post.all).Should(HaveLen(1), "only the first write may be sent, with an empty status")
		resize(2)
		Eventually(post.all).Should(HaveLen(2))
		Consistently(valueAt(ctx, obj, "metadata", "resourceVersion"), quietTime).Should(Equal(obj.GetResourceVersion()), "the write must change nothing")
		resize(3)
		Eventually(seen.all).Should(Equal([]string{"1", "2", "3"}))
		Expect(operator.log.find("cache does not show")).To(BeEmpty())
	}, SpecTimeout(minute))
})
