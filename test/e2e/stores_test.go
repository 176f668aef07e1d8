package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("Progress and baseline", func() {
	type (
		W = *v1.Widget
		U = *unstructured.Unstructured
	)
	const pause = 50 * time.Millisecond

	DescribeTable("can be stored in the status (PROG-07, ESS-13)",
		func(ctx context.Context, obj func(ns string) U) {
			ns, seen := newNamespace(ctx), &calls{}
			one := obj(ns)
			start(ns, options(
				kopf.WithProgress(progress.Status("")), kopf.WithBaseline(progress.StatusBaseline("")),
				kopf.For(kopf.Unstructured(one.GroupVersionKind())).
					OnCreate("first", ok[U](seen, "first")).
					OnCreate("second", failsUntil[U](seen, "second", 2, kopf.Temporary(errOutOfOrder, pause))).
					OnUpdate("updated", ok[U](seen, "updated"))))
			create(ctx, one)
			Eventually(valueAt(ctx, one, "status", "kopf", "last-handled-configuration")).Should(
				MatchJSON(`{"spec":{"size":1,"color":"red"}}`))
			Expect(valueAt(ctx, one, "status", "kopf", "progress")()).To(Or(BeNil(), BeEmpty()), "the cycle must remove its records")
			Expect(seen.all()).To(Equal([]string{"first:create", "second:create#0", "second:create#1", "second:create#2"}))

			edit(ctx, one, func(u U) { Expect(unstructured.SetNestedField(u.Object, int64(2), "spec", "size")).To(Succeed()) })
			Eventually(seen.all).Should(ContainElement("updated:update"))
			Eventually(valueAt(ctx, one, "status", "kopf", "last-handled-configuration")).Should(
				MatchJSON(`{"spec":{"size":2,"color":"red"}}`))
			now, err := fresh(ctx, one)()
			Expect(err).NotTo(HaveOccurred())
			for key := range now.GetAnnotations() {
				Expect(key).To(HavePrefix(progress.DefaultPrefix + "/state-of-"))
			}
			Consistently(seen.all, quietTime).Should(HaveLen(5))
		},
		Entry("of a kind with the status subresource", SpecTimeout(minute), func(ns string) U { return untyped(widgetGVK, ns, "one") }),
		Entry("of a kind without the status subresource", SpecTimeout(minute), func(ns string) U { return untyped(gadgetGVK, ns, "one") }),
	)

	It("move from one place to another while both are in use (PROG-08, ESS-14)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		one := untyped(gadgetGVK, ns, "one")
		declare := func(opts ...kopf.Option) []kopf.Option {
			return append(opts, kopf.For(kopf.Unstructured(gadgetGVK)).
				OnCreate("created", ok[U](seen, "created")).OnUpdate("updated", ok[U](seen, "updated")))
		}
		old := start(ns, declare())
		create(ctx, one)
		handled(ctx, one)
		old.stop()
		both := start(ns, declare(
			kopf.WithProgress(progress.Multi(progress.Status(""), progress.Smart())),
			kopf.WithBaseline(progress.MultiBaseline(progress.StatusBaseline(""), progress.AnnotationBaseline("")))))
		edit(ctx, one, func(u U) { u.SetLabels(map[string]string{"a": "b"}) })
		Eventually(valueAt(ctx, one, "status", "kopf", "last-handled-configuration")).Should(ContainSubstring(`"a":"b"`))
		both.stop()
		start(ns, declare(kopf.WithProgress(progress.Status("")), kopf.WithBaseline(progress.StatusBaseline(""))))
		Consistently(seen.all, quietTime).Should(Equal([]string{"created:create", "updated:update"}))
	}, SpecTimeout(minute))

	DescribeTable("are rejected if the API server would drop them (B-33)",
		func(ctx context.Context, resource *kopf.Resource[U], opts ...kopf.Option) {
			mgr := newManager(newNamespace(ctx), &logRecorder{})
			err := kopf.New(mgr, append(opts, resource)...).Start(ctx)
			Expect(err).To(MatchError(And(ContainSubstring("no field status.kopf"), ContainSubstring("Annotations"))))
		},
		Entry("the progress, by the schema of the kind", SpecTimeout(minute),
			kopf.For(kopf.Unstructured(strictGVK)).OnCreate("a", ok[U](&calls{}, "a")), kopf.WithProgress(progress.Status(""))),
		Entry("the baseline, by the schema of the kind", SpecTimeout(minute),
			kopf.For(kopf.Unstructured(strictGVK)).OnCreate("a", ok[U](&calls{}, "a")), kopf.WithBaseline(progress.StatusBaseline(""))),
		Entry("both, in a built-in kind", SpecTimeout(minute),
			kopf.For(kopf.Unstructured(corev1.SchemeGroupVersion.WithKind("Pod"))).OnCreate("a", ok[U](&calls{}, "a")), kopf.WithProgress(progress.Status(""))),
	)

	It("are rejected if the Go type has no field for them (B-33)", func(ctx context.Context) {
		mgr := newManager(newNamespace(ctx), &logRecorder{})
		err := kopf.New(mgr, kopf.WithProgress(progress.Status("")), kopf.For(&v1.Widget{}).OnCreate("a", ok[W](&calls{}, "a"))).CheckDeclaration()
		Expect(err).To(MatchError(ContainSubstring("Go type *v1.Widget has no field status.kopf")))
	}, SpecTimeout(minute))

	It("of handlers that the operator no longer has are removed by the next cycle (B-29, PROG-11, SE-20)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		first := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("kept", ok[W](seen, "kept")).
			OnCreate("dropped", fails[W](seen, "dropped", kopf.Temporary(errOutOfOrder, time.Hour)))))
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "dropped")).Should(HaveField("Retries", 1))
		first.stop()
		edit(ctx, obj, func(w W) { w.Annotations[progress.DefaultPrefix+"/note"] = "not a record" })

		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("kept", ok[W](seen, "kept"))))
		Eventually(recordOf(ctx, obj, "dropped")).Should(BeNil())
		Consistently(seen.all, quietTime).Should(Equal([]string{"kept:create", "dropped:create#0"}))
		now, err := fresh(ctx, obj)()
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Annotations).To(HaveKeyWithValue(progress.DefaultPrefix+"/note", "not a record"))
	}, SpecTimeout(minute))

	It("omit fields that are not essential (ESS-09)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		start(ns, options(
			kopf.WithBaseline(progress.IgnoringFields(progress.AnnotationBaseline(""), "spec.color")),
			kopf.For(&v1.Widget{}).OnCreate("created", ok[W](seen, "created")).OnUpdate("updated", ok[W](seen, "updated"))))
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Color = "blue" })
		Consistently(seen.all, quietTime).Should(Equal([]string{"created:create"}))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(Equal([]string{"created:create", "updated:update"}))
	}, SpecTimeout(minute))
})
