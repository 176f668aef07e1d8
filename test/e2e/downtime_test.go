package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

const (
	foreignFinalizer = "foreign.example.com/keep"
	// quietTime is the time during which specs check that no further calls happen.
	quietTime = 300 * time.Millisecond
)

var _ = Describe("Changes during downtime", func() {
	type W = *v1.Widget

	all := func(seen *calls) *kopf.Resource[W] {
		return kopf.For(&v1.Widget{}).
			OnCreate("created", ok[W](seen, "created")).
			OnUpdate("updated", ok[W](seen, "updated")).
			OnResume("resumed", ok[W](seen, "resumed")).
			OnDelete("deleted", ok[W](seen, "deleted"))
	}
	// withoutFinalizer returns a resource that handles creations and needs no finalizer.
	withoutFinalizer := func() *kopf.Resource[W] {
		return kopf.For(&v1.Widget{}).OnCreate("created", ok[W](&calls{}, "created"))
	}

	It("a creation is handled as a creation, not as a resume (CAUSE-04, CAUSE-12, CAUSE-24)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		create(ctx, obj)
		start(ns, options(all(seen).
			On("both", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonResume}, ok[W](seen, "both"))))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal([]string{"created:create", "both:create"}))
	}, SpecTimeout(minute))

	It("all changes since the last-handled configuration are one update; resume handlers are called too (CAUSE-07, CAUSE-12, CAUSE-25, KW-08, PIPE-06)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		handledBefore(ctx, obj, all(&calls{}))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		edit(ctx, obj, func(w W) { w.Spec.Size, w.Spec.Tags = 3, []string{"new"} })

		requests := make(chan *kopf.Request[W], 10)
		start(ns, options(all(seen).OnUpdate("record", func(_ context.Context, req *kopf.Request[W]) error {
			requests <- req
			return nil
		})))
		var req *kopf.Request[W]
		Eventually(requests).Should(Receive(&req))
		Expect(req.Old.Spec).To(Equal(v1.WidgetSpec{Size: 1, Color: "red"}))
		Expect(req.Old.Name).To(Equal("one"))
		Expect(req.Object.Spec).To(Equal(v1.WidgetSpec{Size: 3, Color: "red", Tags: []string{"new"}}))
		Expect(req.Diff).To(HaveExactElements(
			diff.Item{Op: diff.Add, Path: diff.Path{"spec", "tags"}, New: []any{"new"}},
			diff.Item{Op: diff.Change, Path: diff.Path{"spec", "size"}, Old: int64(1), New: int64(3)},
		))
		Consistently(seen.all, quietTime).Should(Equal([]string{"updated:update", "resumed:update"}))
		handled(ctx, obj)
	}, SpecTimeout(minute))

	It("a change without a matching update handler still resumes the object (CAUSE-25)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		handledBefore(ctx, obj, withoutFinalizer())
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })

		resuming := func() []kopf.Option {
			return options(kopf.For(&v1.Widget{}).OnResume("resumed", ok[W](seen, "resumed")))
		}
		second := start(ns, resuming())
		Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", HaveKeyWithValue(baselineKey, ContainSubstring(`"size":2`))))
		Expect(seen.all()).To(Equal([]string{"resumed:update"}))
		second.stop()

		start(ns, resuming())
		Eventually(seen.all).Should(Equal([]string{"resumed:update", "resumed:resume"}))
	}, SpecTimeout(minute))

	It("changes of labels and annotations are updates; changes of the status and system fields are not (ESS-01, CAUSE-05)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		objects := map[string]*v1.Widget{}
		earlier := start(ns, options(withoutFinalizer()))
		for _, name := range []string{"label", "annotation", "status", "finalizer", "owner", "field"} {
			objects[name] = widget(ns, name)
			create(ctx, objects[name])
		}
		for _, obj := range objects {
			handled(ctx, obj)
		}
		earlier.stop()

		edit(ctx, objects["label"], func(w W) { w.Labels = map[string]string{"tier": "gold"} })
		edit(ctx, objects["annotation"], func(w W) { w.Annotations["example.com/note"] = "look" })
		edit(ctx, objects["finalizer"], func(w W) { w.Finalizers = []string{foreignFinalizer} })
		edit(ctx, objects["owner"], func(w W) {
			w.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: v1.GroupVersion.String(), Kind: "Widget", Name: "label", UID: objects["label"].UID,
			}}
		})
		objects["status"].Status.Phase = "ready"
		Eventually(func() error {
			now, err := fresh(ctx, objects["status"])()
			if err != nil {
				return err
			}
			now.Status.Phase = "ready"
			return k8s.Status().Update(ctx, now)
		}).Should(Succeed())

		// A resume handler is called in addition to the handlers of any cause.
		start(ns, options(kopf.For(&v1.Widget{}).OnResume("resumed", func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("%s:%s", req.Object.Name, req.Reason)
			return nil
		})))
		want := ConsistOf("label:update", "annotation:update", "status:resume", "finalizer:resume", "owner:resume", "field:resume")
		Eventually(seen.all).Should(want)
		Consistently(seen.all, quietTime).Should(want)
		edit(ctx, objects["finalizer"], func(w W) { w.Finalizers = nil })
	}, SpecTimeout(minute))

	It("a deletion is handled if the object has our finalizer (CAUSE-03, FIN-06, FIN-14)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		obj.Finalizers = []string{foreignFinalizer}
		handledBefore(ctx, obj, all(&calls{}))
		remove(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })

		start(ns, options(all(seen)))
		Eventually(fresh(ctx, obj)).Should(HaveField("Finalizers", ConsistOf(foreignFinalizer)))
		Consistently(seen.all, quietTime).Should(Equal([]string{"deleted:delete"}))
		edit(ctx, obj, func(w W) { w.Finalizers = nil })
		Eventually(gone(ctx, obj)).Should(BeTrue())
	}, SpecTimeout(minute))

	It("a deletion calls only resume handlers with EvenIfDeleted (CAUSE-23)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		handledBefore(ctx, obj, all(&calls{}))
		remove(ctx, obj)

		start(ns, options(all(seen).OnResume("even-so", ok[W](seen, "even-so"), kopf.EvenIfDeleted())))
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(ConsistOf("deleted:delete", "even-so:delete"))
	}, SpecTimeout(minute))

	It("a deletion that only other finalizers block is ignored (CAUSE-02, FIN-05)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		obj.Finalizers = []string{foreignFinalizer}
		handledBefore(ctx, obj, withoutFinalizer())
		remove(ctx, obj)
		left, err := fresh(ctx, obj)()
		Expect(err).NotTo(HaveOccurred())

		start(ns, options(all(seen).OnResume("even-so", ok[W](seen, "even-so"), kopf.EvenIfDeleted())))
		Consistently(seen.all, quietTime).Should(BeEmpty())
		Expect(fresh(ctx, obj)()).To(HaveField("ResourceVersion", left.ResourceVersion), "the object must not be written")
		edit(ctx, obj, func(w W) { w.Finalizers = nil })
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Consistently(seen.all, quietTime).Should(BeEmpty())
	}, SpecTimeout(minute))

	It("a deletion during a creation cycle ends the cycle (CAUSE-18)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		declare := func() []kopf.Option {
			return options(kopf.For(&v1.Widget{}).
				OnCreate("created", fails[W](seen, "created", kopf.Temporary(errOutOfOrder, 100*time.Millisecond))).
				OnDelete("deleted", ok[W](seen, "deleted")))
		}
		first := start(ns, declare())
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "created")).Should(HaveField("Retries", BeNumerically(">=", 1)))
		first.stop()
		remove(ctx, obj)
		before := len(seen.all())

		start(ns, declare())
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Consistently(func() []string { return seen.all()[before:] }, quietTime).Should(Equal([]string{"deleted:delete"}))
	}, SpecTimeout(minute))

	It("the deletion of objects that have our finalizer, but were never handled, calls delete handlers (CAUSE-19)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		obj.Finalizers = []string{kopf.DefaultFinalizer}
		create(ctx, obj)
		remove(ctx, obj)

		start(ns, options(all(seen).OnDelete("record", func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("old: %v", req.Old)
			return nil
		})))
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal([]string{"deleted:delete", "old: <nil>"}))
	}, SpecTimeout(minute))

	It("objects that were deleted during the downtime are not handled", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj, other := widget(ns, "one"), widget(ns, "other")
		handledBefore(ctx, obj, withoutFinalizer())
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())

		op := start(ns, options(all(seen)))
		create(ctx, other)
		handled(ctx, other)
		Expect(seen.all()).To(Equal([]string{"created:create"}))
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("an object that is created again under the same name is handled as a new object (B-06)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		old := widget(ns, "one")
		handledBefore(ctx, old, withoutFinalizer())
		remove(ctx, old)
		Eventually(gone(ctx, old)).Should(BeTrue())
		obj := widget(ns, "one")
		create(ctx, obj)

		start(ns, options(all(seen)))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal([]string{"created:create"}))
	}, SpecTimeout(minute))

	It("an update that is reverted during its cycle calls its handlers again (B-01, B-02, SE-02)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		declare := func(outcome error) []kopf.Option {
			return options(kopf.WithCheckpoint(0), kopf.For(&v1.Widget{}).
				OnCreate("created", ok[W](&calls{}, "created")).
				OnUpdate("first", ok[W](seen, "first")).
				OnUpdate("second", fails[W](seen, "second", outcome)))
		}
		obj := widget(ns, "one")
		first := start(ns, declare(kopf.Temporary(errOutOfOrder, 5*time.Second))) // longer than the time until the operator has stopped
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(recordOf(ctx, obj, "second")).Should(HaveField("Retries", 1))
		Expect(recordOf(ctx, obj, "first")()).To(HaveField("Success", true))
		first.stop()
		edit(ctx, obj, func(w W) { w.Spec.Size = 1 })

		start(ns, declare(nil))
		Eventually(seen.all).Should(Equal([]string{"first:update", "second:update#0", "first:update", "second:update#1"}))
		handled(ctx, obj)

		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(HaveLen(6))
		Expect(seen.all()[4:]).To(Equal([]string{"first:update", "second:update#0"}))
		handled(ctx, obj)
	}, SpecTimeout(minute))

	It("removing the last-handled configuration makes the next cause a creation (CAUSE-28)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		handledBefore(ctx, obj, all(&calls{}))
		removeBaseline := func(w W) { delete(w.Annotations, baselineKey) }
		edit(ctx, obj, removeBaseline)

		start(ns, options(all(seen)))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal([]string{"created:create"}))
		edit(ctx, obj, removeBaseline)
		Eventually(seen.all).Should(Equal([]string{"created:create", "created:create"}))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(HaveLen(2))
	}, SpecTimeout(minute))
})

var _ = Describe("Changes while the operator runs", func() {
	type W = *v1.Widget

	It("an update that is reverted during its cycle calls its handlers again; delays remain (B-01, B-02, B-11, CAUSE-17)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", ok[W](&calls{}, "created")).
			OnUpdate("first", ok[W](seen, "first")).
			OnUpdate("second", failsUntil[W](seen, "second", 1, kopf.Temporary(nil, 6*time.Second))))) // longer than the time for the edits
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(recordOf(ctx, obj, "second")).Should(HaveField("Retries", 1))
		edit(ctx, obj, func(w W) { w.Spec.Size = 1 })
		Eventually(seen.all).Should(Equal([]string{"first:update", "second:update#0", "first:update"}))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(Equal([]string{
			"first:update", "second:update#0", "first:update", "first:update", "second:update#1",
		}))
		handled(ctx, obj)
	}, SpecTimeout(minute))

	It("a reconcile of a deleted object does not write to a new object of the same name (B-06)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		release := make(chan struct{})
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("created %s", req.Object.UID)
				select {
				case <-release:
				case <-ctx.Done():
				}
				req.Object.Labels = map[string]string{"handled-as": string(req.Object.UID)}
				req.Object.Status.Log = append(req.Object.Status.Log, string(req.Object.UID))
				return nil
			})))
		old := widget(ns, "one")
		create(ctx, old)
		Eventually(seen.all).Should(HaveLen(1))
		remove(ctx, old)
		Eventually(gone(ctx, old)).Should(BeTrue())
		obj := widget(ns, "one")
		create(ctx, obj)
		close(release)

		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal([]string{"created " + string(old.UID), "created " + string(obj.UID)}))
		Expect(fresh(ctx, obj)()).To(And(
			HaveField("Labels", HaveKeyWithValue("handled-as", string(obj.UID))),
			HaveField("Status.Log", ConsistOf(string(obj.UID)))))
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("an object that is created again right after the deletion is handled from the beginning (B-06)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		note := func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("%s %s", req.Reason, req.Object.UID)
			return nil
		}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", note).OnUpdate("updated", note).OnResume("resumed", note).OnDelete("deleted", note)))
		var want []string
		for range 3 {
			obj := widget(ns, "one")
			Eventually(func() error { return k8s.Create(ctx, obj) }).WithPolling(time.Millisecond).Should(Succeed())
			handled(ctx, obj)
			remove(ctx, obj)
			want = append(want, "create "+string(obj.UID), "delete "+string(obj.UID))
		}
		Eventually(seen.all).Should(Equal(want))
		Consistently(seen.all, quietTime).Should(Equal(want))
	}, SpecTimeout(minute))
})
