package e2e

import (
	"context"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("A handler that uses a client", func() {
	type W = *v1.Widget

	It("to write the object is called once; the engine handles its change as an update", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("created")
				req.Object.Spec.Color, req.Object.Spec.Tags = "blue", []string{"tag"}
				if err := req.Client.Update(ctx, req.Object); err != nil {
					return err
				}
				req.Object.Status = v1.WidgetStatus{Phase: "Ready", Log: []string{"line"}}
				return req.Client.Status().Update(ctx, req.Object)
			}).
			OnUpdate("updated", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("updated %s→%s", req.Old.Spec.Color, req.Object.Spec.Color)
				return nil
			}).
			OnDelete("deleted", ok[W](seen, "deleted"))))
		obj := widget(ns, "one")
		create(ctx, obj)
		want := []string{"created", "updated red→blue"}
		Eventually(seen.all).Should(Equal(want))
		Consistently(seen.all).Should(Equal(want))
		Expect(fresh(ctx, obj)()).To(And(
			HaveField("Spec", v1.WidgetSpec{Size: 1, Color: "blue", Tags: []string{"tag"}}),
			HaveField("Status", v1.WidgetStatus{Phase: "Ready", Log: []string{"line"}})))
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("to write the status does not lose changes of an earlier handler", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("painted", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("painted")
				req.Object.Spec.Color = "blue"
				return nil
			}).
			OnCreate("ready", func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("ready")
				req.Object.Status.Phase = "Ready"
				return req.Client.Status().Update(ctx, req.Object)
			}).
			OnUpdate("updated", ok[W](seen, "updated"))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(And(HaveField("Spec.Color", "blue"), HaveField("Status.Phase", "Ready")))
		Consistently(seen.all, quietTime).Should(Equal([]string{"painted", "ready"}))
	}, SpecTimeout(minute))

	It("to write the status does not hide an edit of another client", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnUpdate("updated", func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("updated %d", req.Object.Spec.Size)
				if req.Object.Spec.Size == 2 { // a concurrent edit
					must(k8s.Patch(ctx, req.Object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"size":3}}`))))
				}
				before := req.Object.DeepCopy()
				req.Object.Status.Phase = "Resizing"
				return req.Client.Status().Patch(ctx, req.Object, client.MergeFrom(before))
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(Equal([]string{"updated 2", "updated 3"}))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(HaveLen(2))
		Expect(fresh(ctx, obj)()).To(And(HaveField("Spec.Size", 3), HaveField("Status.Phase", "Resizing")))
	}, SpecTimeout(minute))

	DescribeTable("to read the object again from a stale cache does not revert changes (B-10)",
		func(ctx context.Context, annotations map[string]string) {
			ns, seen := newNamespace(ctx), &calls{}
			op := start(ns, options(kopf.WithCheckpoint(0), kopf.For(&v1.Widget{}).
				OnCreate("first", func(_ context.Context, req *kopf.Request[W]) error {
					seen.notef("first")
					req.Object.Status.Phase = "Ready"
					req.Object.Spec.Tags = []string{"first"}
					return nil
				}).
				OnCreate("second", func(ctx context.Context, req *kopf.Request[W]) error {
					seen.notef("second#%d", req.Attempt.Number)
					if err := req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), req.Object); err != nil {
						return err
					}
					if req.Attempt.Number == 0 {
						return kopf.Temporary(nil, 500*millisecond)
					}
					return nil
				})), through(func(next http.RoundTripper) http.RoundTripper { return &laggingTransport{next, 300 * millisecond} }))
			obj := widget(ns, "one")
			obj.Annotations = annotations
			create(ctx, obj)
			handled(ctx, obj)
			Consistently(seen.all).Should(Equal([]string{"first", "second#0", "second#1"}))
			Expect(fresh(ctx, obj)()).To(And(HaveField("Status.Phase", "Ready"), HaveField("Spec.Tags", ConsistOf("first"))))
			Expect(op.log.errors()).To(BeEmpty())
		},
		Entry("without annotations", SpecTimeout(minute), nil),
		Entry("with annotations", SpecTimeout(minute), map[string]string{"example.com/note": "note"}),
	)

	It("and returns a conflict is retried without an error line (B-27)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("created#%d", req.Attempt.Number)
				if req.Attempt.Number == 0 { // a concurrent edit
					must(k8s.Patch(ctx, req.Object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":"gold"}}}`))))
				}
				req.Object.Spec.Size = 3
				return req.Client.Update(ctx, req.Object)
			}, kopf.Backoff(100*millisecond))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"created#0", "created#1"}))
		Expect(fresh(ctx, obj)()).To(And(HaveField("Spec.Size", 3), HaveField("Labels", HaveKeyWithValue("tier", "gold"))))
		Expect(op.log.find("Handler failed", "the object has been modified")).To(HaveLen(1))
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))
})

var _ = Describe("A concurrent change of a list", func() {
	type W = *v1.Widget

	// concurrently returns a handler. During its first call, another client edits the object.
	concurrently := func(seen *calls, theirs, ours func(W)) kopf.Handler[W] {
		return func(ctx context.Context, req *kopf.Request[W]) error {
			seen.notef("list#%d", req.Attempt.Number)
			if len(seen.all()) == 1 {
				foreign := &v1.Widget{}
				must(k8s.Get(ctx, client.ObjectKeyFromObject(req.Object), foreign))
				theirs(foreign)
				must(k8s.Update(ctx, foreign))
			}
			ours(req.Object)
			return nil
		}
	}

	const mine = "mine.example.com/keep"
	withTag := func(tag string) func(W) { return func(w W) { w.Spec.Tags = append(w.Spec.Tags, tag) } }
	withFinalizer := func(by string) func(W) { return func(w W) { w.Finalizers = append(w.Finalizers, by) } }

	DescribeTable("is not overwritten when the same reconcile writes the status (decision 0005)",
		func(ctx context.Context, theirs, ours func(W), field string, want []string) {
			ns, seen := newNamespace(ctx), &calls{}
			op := start(ns, options(kopf.For(&v1.Widget{}).OnCreate("list", concurrently(seen, theirs, func(w W) {
				ours(w)
				w.Status.Phase = "Done"
			}))))
			obj := widget(ns, "one")
			create(ctx, obj)
			handled(ctx, obj)
			now, err := fresh(ctx, obj)()
			edit(ctx, obj, func(w W) { w.Finalizers = nil })
			Expect(err).NotTo(HaveOccurred())
			Expect(now).To(And(HaveField(field, Equal(want)), HaveField("Status.Phase", "Done")))
			Expect(seen.all()).To(Equal([]string{"list#0", "list#0"}))
			Expect(op.log.errors()).To(BeEmpty())
		},
		Entry("in the spec", SpecTimeout(minute), withTag("theirs"), withTag("ours"), "Spec.Tags", []string{"theirs", "ours"}),
		Entry("among the finalizers", SpecTimeout(minute), withFinalizer(foreignFinalizer), withFinalizer(mine), "Finalizers", []string{foreignFinalizer, mine}),
	)

	It("delays the next attempt of the handler until the cache contains it", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		contested := concurrently(seen, withTag("theirs"), withTag("ours"))
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("list", func(ctx context.Context, req *kopf.Request[W]) error {
			if req.Attempt.Number == 0 { // the first attempt stores a record, so that the engine does not write before the second attempt
				return kopf.Temporary(nil, 3*time.Second)
			}
			return contested(ctx, req)
		})), through(func(next http.RoundTripper) http.RoundTripper { return &laggingTransport{next, time.Second} }))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"list#1", "list#1"}), "the handler must not be called in a hot loop")
		Expect(fresh(ctx, obj)()).To(HaveField("Spec.Tags", Equal([]string{"theirs", "ours"})))
	}, SpecTimeout(minute))
})

var _ = Describe("A status for an object that was deleted", func() {
	type W = *v1.Widget

	It("is not written to a new object of the same name (B-06)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(&v1.Widget{}).OnCreate("created", func(ctx context.Context, req *kopf.Request[W]) error {
			seen.notef("%s", req.Object.Spec.Color)
			if req.Object.Spec.Color == "blue" {
				return nil
			}
			must(k8s.Delete(ctx, req.Object.DeepCopy()))
			namesake := widget(ns, "one")
			namesake.Spec.Color = "blue"
			must(k8s.Create(ctx, namesake))
			req.Object.Status.Phase = "Red" // the change contains no list, because patches of lists contain the resourceVersion
			req.SetResult("red")
			return nil
		})))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(seen.all).Should(Equal([]string{"red", "blue"}))
		handled(ctx, obj)
		Consistently(valueAt(ctx, untyped(widgetGVK, ns, "one"), "status"), quietTime).Should(BeNil())
		Expect(seen.all()).To(HaveLen(2))
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))
})
