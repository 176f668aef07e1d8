package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// ownedMap returns a ConfigMap. Its owner may be nil.
func ownedMap(namespace, name string, owner *v1.Widget) *corev1.ConfigMap {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if owner != nil {
		obj.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1.GroupVersion.String(), Kind: "Widget", Name: owner.Name, UID: owner.UID,
		}}
	}
	return obj
}

var _ = Describe("Reconcile handlers (B-28)", func() {
	type W = *v1.Widget

	sized := func(seen *calls) kopf.Handler[W] {
		return func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("%s %s %d", req.Reason, req.Object.Name, req.Object.Spec.Size)
			return nil
		}
	}

	It("are called at the start of each process and for every change, and store nothing", func(ctx context.Context) {
		ns, seen, wire := newNamespace(ctx), &calls{}, &writeRecorder{}
		obj := widget(ns, "one")
		create(ctx, obj)
		first := start(ns, options(kopf.For(&v1.Widget{}).OnReconcile("sync", sized(seen))), wire.setup())
		Eventually(seen.all).Should(Equal([]string{"reconcile one 1"}))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(Equal([]string{"reconcile one 1", "reconcile one 2"}))
		Expect(k8s.Status().Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"x"}}`)))).To(Succeed())
		Eventually(seen.all).Should(HaveLen(3), "changes of all fields must cause a call")
		Consistently(seen.all, quietTime).Should(HaveLen(3))
		first.stop()
		start(ns, options(kopf.For(&v1.Widget{}).OnReconcile("sync", sized(seen))), wire.setup())
		Eventually(seen.all).Should(HaveLen(4))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Consistently(seen.all, quietTime).Should(HaveLen(4))
		Expect(wire.all()).To(BeEmpty(), "the operator must write no baseline, no records and no finalizer")
	}, SpecTimeout(minute))

	It("are called for changes of owned objects, and not of other objects", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj, other := widget(ns, "one"), widget(ns, "other")
		create(ctx, obj)
		create(ctx, other)
		old := ownedMap(ns, "old", obj)
		create(ctx, old)
		start(ns, options(kopf.For(&v1.Widget{}).Owns(&corev1.ConfigMap{}).OnReconcile("sync", sized(seen))))
		Eventually(seen.all).Should(ConsistOf("reconcile one 1", "reconcile other 1"))
		Consistently(seen.all, quietTime).Should(HaveLen(2), "the initial list must not cause a second call")

		count := 1
		called := func(what string) {
			GinkgoHelper()
			count++
			Eventually(seen.count).WithArguments("reconcile one 1").Should(Equal(count), what)
			Consistently(seen.count, quietTime).WithArguments("reconcile one 1").Should(Equal(count), what)
		}
		edit(ctx, old, func(m *corev1.ConfigMap) { m.Data = map[string]string{"a": "b"} })
		called("changed")
		child := ownedMap(ns, "child", obj)
		create(ctx, child)
		called("created")
		remove(ctx, child)
		called("deleted")
		edit(ctx, old, func(m *corev1.ConfigMap) { m.OwnerReferences = nil })
		called("left")
		create(ctx, ownedMap(ns, "stranger", nil))
		remove(ctx, old)
		Consistently(seen.all, quietTime).Should(HaveLen(2 + 4))
		Expect(seen.count("reconcile other 1")).To(Equal(1))
	}, SpecTimeout(minute))

	It("are called for owned objects that pass the predicates", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		create(ctx, obj)
		start(ns, options(kopf.For(&v1.Widget{}).
			Owns(&corev1.ConfigMap{}, predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == "loud" })).
			OnReconcile("sync", sized(seen))))
		Eventually(seen.all).Should(HaveLen(1))
		create(ctx, ownedMap(ns, "quiet", obj))
		Consistently(seen.all, quietTime).Should(HaveLen(1))
		create(ctx, ownedMap(ns, "loud", obj))
		Eventually(seen.all).Should(HaveLen(2))
	}, SpecTimeout(minute))

	It("are called for owned objects whose deletion the watch has missed (B-04)", func(ctx context.Context) {
		ns, seen, line := newNamespace(ctx), &calls{}, &watchBreaker{only: "/configmaps"}
		obj := widget(ns, "one")
		create(ctx, obj)
		child := ownedMap(ns, "child", obj)
		create(ctx, child)
		start(ns, options(kopf.For(&v1.Widget{}).Owns(&corev1.ConfigMap{}).OnReconcile("sync", sized(seen))), line.setup())
		Eventually(seen.all).Should(HaveLen(1))
		line.cut()
		remove(ctx, child)
		line.restoreWithLoss()
		Eventually(seen.all).Should(HaveLen(2))
		Consistently(seen.all, quietTime).Should(HaveLen(2))
	}, SpecTimeout(minute))

	It("are called after their interval, counted from the last call", func(ctx context.Context) {
		const interval = 2 * time.Second // longer than the time until the edit is handled
		ns, line := newNamespace(ctx), &timeline{}
		start(ns, options(kopf.For(&v1.Widget{}).OnReconcile("sync", timed(line, sized(&calls{})), kopf.Interval(interval))))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(line.times).Should(HaveLen(3))
		Expect(line.gaps()).To(HaveEach(And(atLeast(interval), BeNumerically("<", 3*interval))))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(line.times).Should(HaveLen(5))
		gaps := line.gaps()
		Expect(gaps[2]).To(BeNumerically("<", interval), "the handler must be called immediately after the edit")
		Expect(gaps[3]).To(atLeast(interval))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		n := len(line.times())
		Consistently(line.times, 2*interval).Should(HaveLen(n))
	}, SpecTimeout(minute))

	It("are retried after a backoff, and called at once for changes", func(ctx context.Context) {
		ns, line := newNamespace(ctx), &timeline{}
		var slow timeline
		start(ns, options(kopf.For(&v1.Widget{}).
			OnReconcile("default", timed(line, failsUntil[W](&calls{}, "default", 3, errOutOfOrder))).
			OnReconcile("slow", timed(&slow, fails[W](&calls{}, "slow", kopf.Temporary(errOutOfOrder, time.Hour))))))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(line.times).Should(HaveLen(4))
		for i, pause := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond} {
			Expect(line.gaps()[i]).To(atLeast(pause))
		}
		for i := range 3 {
			edit(ctx, obj, func(w W) { w.Spec.Size = i + 2 })
			Eventually(slow.times).Should(HaveLen(i + 2))
		}
		Consistently(slow.times, quietTime).Should(HaveLen(4))
	}, SpecTimeout(minute))

	It("that have failed permanently are called again after a change", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnReconcile("permanent", fails[W](seen, "permanent", kopf.Permanent(errOutOfOrder))).
			OnReconcile("limited", fails[W](seen, "limited", errOutOfOrder), kopf.Retries(2), kopf.Backoff(10*time.Millisecond)).
			OnReconcile("terminal", kopf.FromReconciler[W](reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				seen.notef("terminal")
				return reconcile.Result{}, reconcile.TerminalError(errOutOfOrder)
			})))))
		obj := widget(ns, "one")
		create(ctx, obj)
		round := []string{"permanent:reconcile#0", "limited:reconcile#0", "terminal", "limited:reconcile#1"}
		Eventually(seen.all).Should(Equal(round))
		Consistently(seen.all, quietTime).Should(Equal(round))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(Equal(append(round, round...)))
		Eventually(op.log.find).WithArguments(`"handler"="limited"`, "failed permanently", "gave up after 2 attempts").Should(HaveLen(2))
		Expect(fresh(ctx, obj)()).To(HaveField("Annotations", BeEmpty()))
	}, SpecTimeout(minute))

	DescribeTable("are not called for their own changes (B-13)",
		func(ctx context.Context, change func(n int, w *v1.Widget), perCall int) {
			ns, seen, wire := newNamespace(ctx), &calls{}, &writeRecorder{}
			start(ns, options(kopf.For(&v1.Widget{}).OnReconcile("sync", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("called")
				change(len(seen.all()), req.Object)
				return nil
			})), wire.setup())
			obj := widget(ns, "one")
			create(ctx, obj)
			for n := 1; n < 4; n++ {
				Eventually(seen.all).Should(HaveLen(n))
				Eventually(wire.all).Should(HaveLen(n * perCall))
				Consistently(seen.all, quietTime).Should(HaveLen(n), "the handler must not be called in a hot loop")
				Expect(wire.all()).To(HaveLen(n * perCall))
				edit(ctx, obj, func(w W) { w.Spec.Color = fmt.Sprint(n) })
			}
		},
		Entry("of labels", SpecTimeout(minute), func(n int, w *v1.Widget) { w.Labels = map[string]string{"n": fmt.Sprint(n)} }, 1),
		Entry("of the status", SpecTimeout(minute), func(n int, w *v1.Widget) { w.Status.Phase = fmt.Sprint(n) }, 1),
		Entry("of both, in two requests", SpecTimeout(minute), func(n int, w *v1.Widget) {
			w.Spec.Size, w.Status.Phase = 10+n, fmt.Sprint(n)
		}, 2),
	)

	It("are not called for their own changes, even if the watch is stale (B-10, B-13)", func(ctx context.Context) {
		ns, line := newNamespace(ctx), &timeline{}
		start(ns, options(kopf.For(&v1.Widget{}).OnReconcile("sync", timed(line, func(_ context.Context, req *kopf.Request[W]) error {
			req.Object.Status.Phase = fmt.Sprint(len(line.times()))
			return nil
		}), kopf.Interval(7*time.Second))), through(func(next http.RoundTripper) http.RoundTripper { return &laggingTransport{next, 8 * time.Second} }))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(line.times).WithTimeout(minute).Should(HaveLen(4))
		Expect(line.gaps()).To(HaveEach(atLeast(7*time.Second)), "the handler must be called only after its interval")
	}, SpecTimeout(2*minute))

	It("are called again for changes of other clients during a call", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		entered, release := make(chan struct{}, 10), make(chan struct{})
		start(ns, options(kopf.For(&v1.Widget{}).OnReconcile("sync", func(ctx context.Context, req *kopf.Request[W]) error {
			entered <- struct{}{}
			<-release
			req.Object.Status.Phase = fmt.Sprint("for ", req.Object.Spec.Size)
			return sized(seen)(ctx, req)
		})))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(entered).Should(Receive())
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		close(release)
		Eventually(seen.all).Should(Equal([]string{"reconcile one 1", "reconcile one 2"}))
		Eventually(fresh(ctx, obj)).Should(HaveField("Status.Phase", "for 2"))
		Consistently(seen.all, quietTime).Should(HaveLen(2))
	}, SpecTimeout(minute))

	It("run beside cause handlers, and are not called for their writes", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(kopf.Unstructured(widgetGVK)).
			OnCreate("created", func(_ context.Context, req untypedRequest) error {
				seen.notef("created")
				req.SetResult("done")
				if req.Attempt.Number == 0 {
					return kopf.Temporary(errOutOfOrder, 300*time.Millisecond)
				}
				return nil
			}).
			OnUpdate("updated", ok[untypedObject](seen, "updated")).
			OnDelete("deleted", ok[untypedObject](seen, "deleted")).
			OnReconcile("sync", func(_ context.Context, req untypedRequest) error {
				seen.notef("sync")
				req.SetResult(map[string]any{"calls": seen.count("sync")})
				return nil
			})))
		obj := untyped(widgetGVK, ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(ConsistOf("created", "sync", "created"))
		Expect(valueAt(ctx, obj, "status", "sync")()).To(Equal(map[string]any{"calls": int64(1)}), "RES-04: the result must be stored")
		edit(ctx, obj, func(u untypedObject) { u.SetLabels(map[string]string{"a": "b"}) })
		Eventually(seen.all).Should(HaveLen(5))
		Consistently(seen.all, quietTime).Should(ConsistOf("created", "sync", "created", "updated:update", "sync"))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.count("deleted:delete")).To(Equal(1))
	}, SpecTimeout(minute))

	It("whose change is rejected fail, and are retried (decision 0005)", func(ctx context.Context) {
		ns, line := newNamespace(ctx), &timeline{}
		op := start(ns, options(kopf.For(&v1.Widget{}).OnReconcile("sync", timed(line, func(_ context.Context, req *kopf.Request[W]) error {
			if req.Object.Spec.Size = 5000; req.Attempt.Number == 2 {
				req.Object.Spec.Size = 50
			}
			return nil
		}), kopf.Backoff(300*time.Millisecond))))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(fresh(ctx, obj)).Should(HaveField("Spec.Size", 50))
		Consistently(line.times, quietTime).Should(HaveLen(3))
		Expect(line.gaps()).To(HaveEach(atLeast(300 * time.Millisecond)))
		Eventually(op.log.find).WithArguments("rejects the change", `"handler"="sync"`).Should(HaveLen(2))
	}, SpecTimeout(minute))

	It("support filters, and are called again for an object that passes them again", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).OnReconcile("sync", sized(seen), kopf.Label("on"), kopf.Interval(200*time.Millisecond))))
		obj := widget(ns, "one")
		create(ctx, obj)
		Consistently(seen.all, quietTime).Should(BeEmpty())
		edit(ctx, obj, func(w W) { w.Labels = map[string]string{"on": ""} })
		called := func() int { return len(seen.all()) }
		Eventually(called).Should(BeNumerically(">=", 3))
		edit(ctx, obj, func(w W) { w.Labels = nil })
		Eventually(func() bool {
			n := len(seen.all())
			<-time.After(500 * time.Millisecond)
			return len(seen.all()) == n
		}).Should(BeTrue())
		n := called()
		edit(ctx, obj, func(w W) { w.Labels = map[string]string{"on": ""} })
		Eventually(called).Should(BeNumerically(">", n))
	}, SpecTimeout(minute))
})

var _ = Describe("A reconciler as a handler (B-28)", func() {
	type W = *v1.Widget

	It("is called again after its RequeueAfter, and for changes", func(ctx context.Context) {
		ns, line, seen := newNamespace(ctx), &timeline{}, &calls{}
		var broken atomic.Bool
		results := []reconcile.Result{{RequeueAfter: 400 * time.Millisecond}, {RequeueAfter: 3 * time.Second}, {}}
		start(ns, options(kopf.For(&v1.Widget{}).Owns(&corev1.ConfigMap{}).OnReconcile("main",
			timed(line, kopf.FromReconciler[W](reconcile.Func(func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
				n := len(line.times())
				seen.notef("%s", strings.TrimPrefix(req.String(), ns+"/"))
				if broken.Load() {
					return reconcile.Result{RequeueAfter: time.Hour}, errOutOfOrder
				}
				return results[min(n, len(results))-1], nil
			}))), kopf.EvenIfDeleted())))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(line.times).Should(HaveLen(3))
		Expect(line.gaps()).To(HaveExactElements(
			And(atLeast(400*time.Millisecond), BeNumerically("<", 3*time.Second)), atLeast(3*time.Second)))
		Consistently(line.times, quietTime).Should(HaveLen(3))
		broken.Store(true)
		create(ctx, ownedMap(ns, "child", obj))
		Eventually(func() int { return len(line.times()) }).Should(BeNumerically(">=", 6))
		broken.Store(false)
		gaps := line.gaps()
		Expect(gaps[3]).To(And(atLeast(5*time.Millisecond), BeNumerically("<", time.Hour)), "the backoff of an error must override RequeueAfter")
		Expect(gaps[4]).To(atLeast(10 * time.Millisecond))
		Expect(seen.all()).To(HaveEach("one"))
	}, SpecTimeout(minute))

	It("may request a requeue without a delay", func(ctx context.Context) {
		ns, line := newNamespace(ctx), &timeline{}
		start(ns, options(kopf.For(&v1.Widget{}).OnReconcile("main",
			timed(line, kopf.FromReconciler[W](reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{Requeue: len(line.times()) < 3}, nil //nolint:staticcheck // existing reconcilers use it
			}))), kopf.EvenIfDeleted())))
		create(ctx, widget(ns, "one"))
		Eventually(line.times).Should(HaveLen(3))
		Consistently(line.times, quietTime).Should(HaveLen(3))
		Expect(line.gaps()).To(HaveExactElements(atLeast(5*time.Millisecond), atLeast(10*time.Millisecond)))
	}, SpecTimeout(minute))
})
