package e2e

import (
	"context"
	"errors"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("A change that is too large for the API server", func() {
	type W = *v1.Widget

	const kib = 1 << 10

	DescribeTable("fails its handler, and has no other effect",
		func(ctx context.Context, size int, grow func(obj W, text string), message string) {
			ns, seen := newNamespace(ctx), &calls{}
			large := func(id string) kopf.Handler[W] {
				return func(_ context.Context, req *kopf.Request[W]) error {
					seen.notef("%s:%d", id, req.Attempt.Number)
					grow(req.Object, strings.Repeat("x", size))
					return nil
				}
			}
			small := func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("small:%d", req.Attempt.Number)
				req.Object.Labels = map[string]string{"small": "yes"}
				if req.Reason == kopf.ReasonDelete && req.Attempt.Number == 0 {
					return kopf.Temporary(errors.New("not yet"), 100*millisecond) // the object remains for another write
				}
				return nil
			}
			operator := start(ns, options(kopf.For(&v1.Widget{}).
				OnCreate("large", large("large"), kopf.Retries(3), kopf.Backoff(100*millisecond)).
				OnCreate("small", small).
				OnDelete("large-end", large("large-end"), kopf.Retries(2), kopf.Backoff(100*millisecond)).
				OnDelete("small-end", small)))
			obj := widget(ns, "one")
			create(ctx, obj)
			handled(ctx, obj)
			Expect(seen.all()).To(ConsistOf("large:0", "small:0", "large:1", "large:2"))
			Expect(fresh(ctx, obj)()).To(And(
				HaveField("Labels", HaveKeyWithValue("small", "yes")),
				HaveField("Spec.Color", "red"), HaveField("Status.Phase", BeEmpty())))
			Expect(operator.log.find("rejected the handler's changes", message, `"handler"="large"`)).NotTo(BeEmpty())
			seen.clear()
			remove(ctx, obj)
			Eventually(gone(ctx, obj)).Should(BeTrue())
			Expect(seen.all()).To(ConsistOf("large-end:0", "small:0", "large-end:1", "small:1"))
		},
		Entry("in the spec, for etcd", SpecTimeout(minute), 1700*kib, func(obj W, text string) { obj.Spec.Color = text }, "etcdserver: request is too large"),
		Entry("in the status, for etcd", SpecTimeout(minute), 1700*kib, func(obj W, text string) { obj.Status.Phase = text }, "etcdserver: request is too large"),
		Entry("in the spec, for the connection to etcd", SpecTimeout(minute), 2100*kib, func(obj W, text string) { obj.Spec.Color = text }, "trying to send message larger than max"),
		Entry("in the spec, for requests", SpecTimeout(minute), 4000*kib, func(obj W, text string) { obj.Spec.Color = text }, "too large"),
	)
})
