package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// pinKey is the annotation with the essence at the start of a cycle.
const pinKey = "kopf.zalando.org/pinned-configuration"

// counting returns a setup that counts the writes.
func counting(n *atomic.Int64) setup {
	return withFaults(func(r *http.Request, _ int64, next http.RoundTripper) (*http.Response, error) {
		n.Add(1)
		return next.RoundTrip(r)
	})
}

// mine is the label that the filter requires.
var mine = kopf.Label("mine")

var _ = Describe("An object", func() {
	type W = *v1.Widget
	label := func(w W) { w.Labels = map[string]string{"mine": "yes"} }
	unlabel := func(w W) { w.Labels = nil }

	It("that no handler matches is not changed or logged (PIPE-09, PIPE-12, PIPE-21, ESS-20)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var writes atomic.Int64
		resource := kopf.For(&v1.Widget{}).
			OnCreate("created", ok[W](seen, "created"), mine).
			OnUpdate("updated", ok[W](seen, "updated"), mine).
			OnDelete("deleted", ok[W](seen, "deleted"), kopf.Field("spec.tags"))
		resource.When(func(req *kopf.Request[W]) bool { return req.Object.Name != "foreign" }).
			OnField("color", "spec.color", ok[W](seen, "color")).
			OnResume("resumed", ok[W](seen, "resumed"))
		obj, ours := widget(ns, "foreign"), widget(ns, "ours")
		create(ctx, obj) // create the object before the start
		op := start(ns, options(resource), counting(&writes))
		edit(ctx, obj, func(w W) { w.Spec.Size, w.Spec.Color = 2, "blue" })
		before := obj.ResourceVersion
		label(ours)
		create(ctx, ours)
		handled(ctx, ours)
		Consistently(seen.all, quietTime).Should(Equal([]string{"created:create", "color:create"}))
		Expect(fresh(ctx, obj)()).To(And(HaveField("ResourceVersion", before), HaveField("Annotations", BeEmpty()), HaveField("Finalizers", BeEmpty())))
		Expect(writes.Load()).To(Equal(int64(1)), "only the other object may be written")
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Consistently(seen.all, quietTime).Should(HaveLen(2))
		Expect(op.log.find(`"name"="foreign"`, `"level"=0`)).To(BeEmpty())
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("that only delete handlers match has the finalizer and nothing else (FIN-02)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).OnDelete("deleted", ok[W](seen, "deleted"), mine)))
		obj := widget(ns, "one")
		label(obj)
		create(ctx, obj)
		held(ctx, obj)
		Expect(fresh(ctx, obj)()).To(And(HaveField("Finalizers", Equal([]string{kopf.DefaultFinalizer})), HaveField("Annotations", BeEmpty())))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal([]string{"deleted:delete"}))
	}, SpecTimeout(minute))

	It("that no longer matches loses its finalizer and keeps its baseline; when it matches again, it is handled as one update (C-8, FIN-04, ESS-21, FLT-12, SE-54)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var hadFinalizer atomic.Bool
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnUpdate("updated", func(_ context.Context, req *kopf.Request[W]) error {
				hadFinalizer.Store(len(req.Object.Finalizers) == 1)
				seen.notef("updated %s", req.Diff)
				return nil
			}, mine).
			OnDelete("deleted", ok[W](seen, "deleted"), mine)))
		obj := widget(ns, "one")
		label(obj)
		create(ctx, obj)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(HaveField("Finalizers", HaveLen(1)))

		edit(ctx, obj, unlabel)
		Eventually(fresh(ctx, obj)).Should(HaveField("Finalizers", BeEmpty()))
		lines := len(op.log.find(`"level"=0`))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		edit(ctx, obj, func(w W) { w.Spec.Size = 3 })
		Consistently(seen.all, quietTime).Should(BeEmpty())
		now, err := fresh(ctx, obj)()
		Expect(err).NotTo(HaveOccurred())
		Expect(now.ResourceVersion).To(Equal(obj.ResourceVersion), "the object must not be written")
		Expect(records(now)).To(BeEmpty())
		Expect(now.Annotations).To(And(HaveLen(2), HaveKeyWithValue(baselineKey, And(ContainSubstring(`"size":1`), ContainSubstring(`"mine":"yes"`)))))
		Expect(op.log.find(`"level"=0`)).To(HaveLen(lines))

		edit(ctx, obj, label)
		Eventually(seen.all).Should(Equal([]string{"updated " + changed(1, 3, "spec", "size")}))
		Expect(hadFinalizer.Load()).To(BeTrue(), "PIPE-23: the finalizer must be added before handlers are called")
		handled(ctx, obj)

		edit(ctx, obj, unlabel)
		Eventually(fresh(ctx, obj)).Should(HaveField("Finalizers", BeEmpty()))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Consistently(seen.all, quietTime).Should(HaveLen(1))
	}, SpecTimeout(minute))

	It("that no longer matches during its deletion loses its finalizer (FIN-04)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).OnDelete("deleted", fails[W](seen, "deleted", kopf.Temporary(errOutOfOrder, 200*millisecond)), mine)))
		obj := widget(ns, "one")
		label(obj)
		create(ctx, obj)
		held(ctx, obj)
		remove(ctx, obj)
		Eventually(seen.all).ShouldNot(BeEmpty())
		edit(ctx, obj, unlabel)
		Eventually(gone(ctx, obj)).Should(BeTrue())
	}, SpecTimeout(minute))

	DescribeTable("that no longer matches loses the records of its cycle (FIN-04, B-02)",
		func(ctx context.Context, handledOnce bool) {
			ns, seen := newNamespace(ctx), &calls{}
			obj := widget(ns, "one")
			label(obj)
			resource := func(seen *calls, err error) *kopf.Resource[W] {
				return kopf.For(&v1.Widget{}).
					On("done", createOrUpdate, ok[W](seen, "done"), mine).
					On("failing", createOrUpdate, fails[W](seen, "failing", err), mine)
			}
			if handledOnce {
				handledBefore(ctx, obj, kopf.For(&v1.Widget{}).OnCreate("made", ok[W](&calls{}, "made")))
				edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
			} else {
				create(ctx, obj)
			}
			first := start(ns, options(resource(seen, kopf.Temporary(errOutOfOrder, 300*millisecond))))
			Eventually(recordOf(ctx, obj, "failing")).Should(HaveField("Retries", BeNumerically(">", 0)))
			Expect(fresh(ctx, obj)()).To(HaveField("Annotations", And(HaveKey("kopf.zalando.org/done"), HaveKey(pinKey))))
			edit(ctx, obj, unlabel)
			Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", And(
				Not(HaveKey("kopf.zalando.org/done")), Not(HaveKey("kopf.zalando.org/failing")), Not(HaveKey(pinKey)))))
			n := len(seen.all())
			Consistently(seen.all, quietTime).Should(HaveLen(n))
			first.stop()

			By("matching again: all handlers are called, including those that had succeeded")
			reason := "create"
			if handledOnce {
				reason = "update"
			}
			again := &calls{}
			start(ns, options(resource(again, nil)))
			edit(ctx, obj, label)
			Eventually(again.all).Should(Equal([]string{"done:" + reason, fmt.Sprintf("failing:%s#0", reason)}))
			handled(ctx, obj)
		},
		Entry("of a creation", SpecTimeout(minute), false),
		Entry("of an update", SpecTimeout(minute), true),
	)

	It("that no longer matches also loses its records if the watch has a label selector (FIN-04, FLT-16)", func(ctx context.Context) {
		ns, seen, logs := newNamespace(ctx), &calls{}, &logRecorder{}
		resource := kopf.For(&v1.Widget{}).
			OnCreate("done", ok[W](seen, "done"), mine).
			OnCreate("failing", fails[W](seen, "failing", kopf.Temporary(errOutOfOrder, 300*millisecond)), mine)
		mgr, err := manager.New(cp.Config, manager.Options{
			Scheme: scheme, Logger: logs.Logger(), Metrics: server.Options{BindAddress: "0"},
			Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}, ByObject: kopf.ByObject(resource)},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(mgr.Add(kopf.New(mgr, resource))).To(Succeed())
		launch(mgr, logs)
		obj, other := widget(ns, "one"), widget(ns, "other")
		label(obj)
		create(ctx, other)
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "failing")).Should(HaveField("Retries", BeNumerically(">", 0)))
		var listed v1.WidgetList
		Expect(mgr.GetCache().List(ctx, &listed)).To(Succeed())
		Expect(listed.Items).To(HaveLen(1), "the server must not send the other object")

		edit(ctx, obj, unlabel)
		Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", BeEmpty()))
		Expect(seen.count("done:create")).To(Equal(1))
		Expect(logs.errors()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("that does not match at the start is resumed when it matches (CAUSE-26)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		handledBefore(ctx, obj, kopf.For(&v1.Widget{}).OnCreate("made", ok[W](&calls{}, "made")))
		other := widget(ns, "other")
		op := start(ns, options(kopf.For(&v1.Widget{}).OnResume("resumed", ok[W](seen, "resumed"), mine)))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		label(other)
		create(ctx, other)
		handled(ctx, other)
		Consistently(seen.all, quietTime).Should(BeEmpty())
		edit(ctx, obj, label)
		Eventually(seen.all).Should(Equal([]string{"resumed:update"}), "CAUSE-23, CAUSE-25: the resume handler must be called once")
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 3 })
		Consistently(seen.all, quietTime).Should(HaveLen(1), "CAUSE-21: the resume handler must not be called again")
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("whose baseline was removed manually is handled as a creation (CAUSE-27, CAUSE-28)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("created", ok[W](seen, "created"), mine).OnUpdate("updated", ok[W](seen, "updated"), mine)))
		obj := widget(ns, "one")
		label(obj)
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { delete(w.Annotations, baselineKey) })
		Eventually(seen.all).Should(Equal([]string{"created:create", "created:create"}))
		handled(ctx, obj)
	}, SpecTimeout(minute))
})
