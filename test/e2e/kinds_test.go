package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("Kinds", func() {
	type W = *v1.Widget
	type U = *unstructured.Unstructured
	type M = *metav1.PartialObjectMetadata
	type CM = *corev1.ConfigMap

	configMap := func(namespace string) CM {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"},
			Data:       map[string]string{"key": "value"},
		}
	}

	It("with a Go type pass objects of this type to handlers", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		note := func(ctx context.Context, req *kopf.Request[W]) error {
			old := 0
			if req.Old != nil {
				old = req.Old.Spec.Size
			}
			seen.notef("%s %s %d→%d", req.Reason, req.Object.GroupVersionKind(), old, req.Object.Spec.Size)
			var cached v1.Widget
			return req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), &cached)
		}
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("created", note).OnUpdate("updated", note)))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(Equal([]string{
			"create e2e.example.com/v1, Kind=Widget 0→1", "update e2e.example.com/v1, Kind=Widget 1→2",
		}))
	}, SpecTimeout(minute))

	It("without a Go type pass the complete JSON form to handlers", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var received *kopf.Request[U]
		start(ns, options(kopf.For(kopf.Unstructured(gadgetGVK)).
			OnCreate("created", ok[U](seen, "created")).
			OnUpdate("updated", func(_ context.Context, req *kopf.Request[U]) error {
				received = req
				seen.notef("updated")
				return nil
			}).
			OnDelete("deleted", ok[U](seen, "deleted"))))
		obj := untyped(gadgetGVK, ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(u U) { u.Object["spec"] = map[string]any{"size": int64(1), "any": []any{1.5, true, "x"}} })
		Eventually(seen.all).Should(Equal([]string{"created:create", "updated"}))
		Expect(received.Old.GroupVersionKind()).To(Equal(gadgetGVK))
		Expect(received.Old.Object).To(HaveKeyWithValue("spec", map[string]any{"size": int64(1), "color": "red"}))
		Expect(received.Object.Object).To(HaveKeyWithValue("spec", map[string]any{"size": int64(1), "any": []any{1.5, true, "x"}}))
		Expect(received.Diff).To(HaveExactElements(
			diff.Item{Op: diff.Add, Path: diff.Path{"spec", "any"}, New: []any{1.5, true, "x"}},
			diff.Item{Op: diff.Remove, Path: diff.Path{"spec", "color"}, Old: "red"},
		))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.count("deleted:delete")).To(Equal(1))
	}, SpecTimeout(minute))

	It("with metadata only detect only changes of labels and annotations", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(kopf.Metadata(widgetGVK)).
			OnCreate("created", func(_ context.Context, req *kopf.Request[M]) error {
				seen.notef("created")
				metav1.SetMetaDataLabel(&req.Object.ObjectMeta, "painted", "yes")
				req.SetResult("kept")
				return nil
			}).
			OnUpdate("updated", func(_ context.Context, req *kopf.Request[M]) error {
				seen.notef("updated %s→%s", req.Old.Labels["tier"], req.Object.Labels["tier"])
				return nil
			}).
			OnDelete("deleted", ok[M](seen, "deleted"))), through(withoutStreamErrors))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(HaveField("Labels", HaveKeyWithValue("painted", "yes")))
		Expect(valueAt(ctx, untyped(widgetGVK, ns, "one"), "status", "created")()).To(Equal("kept"))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Consistently(seen.all, quietTime).Should(Equal([]string{"created"}))
		edit(ctx, obj, func(w W) { metav1.SetMetaDataLabel(&w.ObjectMeta, "tier", "gold") })
		Eventually(seen.all).Should(Equal([]string{"created", "updated →gold"}))
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(HaveField("Spec.Size", 2))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal([]string{"created", "updated →gold", "deleted:delete"}))
	}, SpecTimeout(minute))

	It("that are built in detect changes of all top-level fields (ESS-01)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&corev1.ConfigMap{}).
			OnCreate("created", ok[CM](seen, "created")).
			OnUpdate("updated", func(_ context.Context, req *kopf.Request[CM]) error {
				seen.notef("%s", req.Diff)
				req.Object.Data["was"] = "value"
				return nil
			}).
			OnDelete("deleted", ok[CM](seen, "deleted"))))
		obj := configMap(ns)
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(cm CM) { cm.Data["key"] = "new" })
		Eventually(fresh(ctx, obj)).Should(HaveField("Data", map[string]string{"key": "new", "was": "value"}))
		handled(ctx, obj)
		want := []string{"created:create", fmt.Sprint(diff.Diff{{
			Op: diff.Change, Path: diff.Path{"data", "key"}, Old: "value", New: "new",
		}})}
		Consistently(seen.all, quietTime).Should(Equal(want))
		edit(ctx, obj, func(cm CM) { cm.BinaryData = map[string][]byte{"raw": {1, 2, 3}} })
		Eventually(seen.all).Should(HaveLen(3))
		edit(ctx, obj, func(cm CM) { cm.Immutable = new(true) })
		Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", HaveKeyWithValue(baselineKey, ContainSubstring(`"immutable":true`))))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.count("deleted:delete")).To(Equal(1))
	}, SpecTimeout(minute))

	It("work in one operator with the same handler ids", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(
			kopf.For(&v1.Widget{}).OnCreate("created", ok[W](seen, "widget")).OnDelete("deleted", ok[W](seen, "widget")),
			kopf.For(kopf.Unstructured(gadgetGVK)).OnCreate("created", ok[U](seen, "gadget")),
			kopf.For(kopf.Metadata(strictGVK)).OnCreate("created", ok[M](seen, "strict")),
			kopf.For(&corev1.ConfigMap{}).OnCreate("created", ok[CM](seen, "config map")),
		), through(withoutStreamErrors))
		objects := []client.Object{widget(ns, "one"), untyped(gadgetGVK, ns, "one"), untyped(strictGVK, ns, "one"), configMap(ns)}
		finalizers := map[client.Object]int{objects[0]: 1}
		for _, obj := range objects {
			create(ctx, obj)
		}
		for _, obj := range objects {
			handled(ctx, obj)
			now, err := fresh(ctx, obj)()
			Expect(err).NotTo(HaveOccurred())
			Expect(now.GetFinalizers()).To(HaveLen(finalizers[obj]), "only one kind has a delete handler")
			remove(ctx, obj)
			Eventually(gone(ctx, obj)).Should(BeTrue())
		}
		Expect(seen.all()).To(ConsistOf("widget:create", "gadget:create", "strict:create", "config map:create", "widget:delete"))
	}, SpecTimeout(minute))
})

var _ = Describe("Several operators in one manager", func() {
	type W = *v1.Widget

	It("can handle one kind, each with its own finalizer and prefix (B-34, EMB-04)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		logs := &logRecorder{}
		mgr := newManager(ns, logs)
		prefixes := []string{"first.example.com", "second.example.com"}
		for _, prefix := range prefixes {
			Expect(mgr.Add(kopf.New(mgr,
				kopf.WithFinalizer(prefix+"/finalizer"),
				kopf.WithProgress(progress.Annotations(prefix)),
				kopf.WithBaseline(progress.AnnotationBaseline(prefix)),
				kopf.For(&v1.Widget{}).
					OnCreate("created", failsUntil[W](seen, prefix, 1, kopf.Temporary(nil, 0))).
					OnUpdate("updated", ok[W](seen, prefix)).
					OnDelete("deleted", ok[W](seen, prefix))))).To(Succeed())
		}
		launch(mgr, logs)
		obj := widget(ns, "one")
		create(ctx, obj)
		awaitBoth := func() {
			GinkgoHelper()
			for _, prefix := range prefixes {
				Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", And(
					HaveKeyWithValue(prefix+"/last-handled-configuration", ContainSubstring(fmt.Sprintf(`"size":%d`, obj.Spec.Size))),
					Not(HaveKey(prefix+"/created")))))
			}
		}
		awaitBoth()
		Expect(fresh(ctx, obj)()).To(HaveField("Finalizers", ConsistOf("first.example.com/finalizer", "second.example.com/finalizer")))
		want := []string{
			"first.example.com:create#0", "first.example.com:create#1",
			"second.example.com:create#0", "second.example.com:create#1",
		}
		Consistently(seen.all, quietTime).Should(ConsistOf(want))

		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		awaitBoth()
		want = append(want, "first.example.com:update", "second.example.com:update")
		Consistently(seen.all, quietTime).Should(ConsistOf(want))

		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(ConsistOf(append(want, "first.example.com:delete", "second.example.com:delete")))
		Expect(logs.errors()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("handle different kinds with the defaults", func(ctx context.Context) {
		type U = *unstructured.Unstructured
		ns, seen := newNamespace(ctx), &calls{}
		logs := &logRecorder{}
		mgr := newManager(ns, logs)
		Expect(kopf.SetupWithManager(mgr, kopf.For(&v1.Widget{}).OnCreate("created", ok[W](seen, "widget")))).To(Succeed())
		Expect(kopf.SetupWithManager(mgr, kopf.For(kopf.Unstructured(gadgetGVK)).OnCreate("created", ok[U](seen, "gadget")))).To(Succeed())
		launch(mgr, logs)
		one, other := widget(ns, "one"), untyped(gadgetGVK, ns, "one")
		create(ctx, one)
		create(ctx, other)
		handled(ctx, one)
		handled(ctx, other)
		Expect(seen.all()).To(ConsistOf("widget:create", "gadget:create"))
	}, SpecTimeout(minute))

	It("can be added while the manager runs", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		op := start(ns, options(kopf.For(kopf.Unstructured(gadgetGVK)).
			OnCreate("created", ok[*unstructured.Unstructured](seen, "gadget"))))
		create(ctx, obj)
		Eventually(op.Elected()).Should(BeClosed())
		Expect(kopf.SetupWithManager(op, kopf.For(&v1.Widget{}).OnCreate("created", ok[W](seen, "widget")))).To(Succeed())
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"widget:create"}))
	}, SpecTimeout(minute))
})

// withoutStreamErrors returns io.EOF instead of read errors. The filter of metadata watches in controller-runtime leaks
// a goroutine if its watch fails after the last listener has stopped.
func withoutStreamErrors(next http.RoundTripper) http.RoundTripper { return errorFilter{next} }

type errorFilter struct{ next http.RoundTripper }

func (g errorFilter) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := g.next.RoundTrip(r)
	if err == nil {
		response.Body = errorFilterBody{response.Body}
	}
	return response, err
}

type errorFilterBody struct{ io.ReadCloser }

func (b errorFilterBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}
