package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions/conditionstest"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("The observed generation of a status", func() {
	type (
		W = *v1.Widget
		U = *unstructured.Unstructured
	)
	paint := func(color string) kopf.Handler[W] {
		return func(_ context.Context, req *kopf.Request[W]) error {
			req.Object.Spec.Color = color
			req.Conditions().True("Synced", "UpToDate", "")
			return nil
		}
	}
	// describes is what kubectl wait --for=condition=... requires.
	describes := func(generation int, types ...string) OmegaMatcher {
		all := []OmegaMatcher{HaveField("Generation", BeEquivalentTo(generation))}
		for _, conditionType := range types {
			all = append(all, conditionstest.HaveCondition(conditionType, metav1.ConditionTrue).OfGeneration(generation))
		}
		return And(all...)
	}

	It("is the generation that a handler has made by a change of the spec", func(ctx context.Context) {
		ns, patches := newNamespace(ctx), &patchRecorder{}
		root := kopf.WithRootCondition(conditions.Root{Of: []string{"Synced", "Made"}, Fresh: true})
		start(ns, options(kopf.For(&v1.Widget{}, root).OnCreate("make", paint("blue"), kopf.ReportCondition("Made"))), patches.setup())
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(describes(2, "Synced", "Made", "Ready"))
		path := "/apis/" + v1.GroupVersion.String() + "/namespaces/" + ns + "/widgets/one"
		Expect(patches.paths()).To(Equal([]string{path, path + "/status", path}), "the spec, the status that describes it, and the records")
		Expect(patches.all()[1].part("status", "conditions")).To(HaveEach(HaveKeyWithValue("observedGeneration", BeEquivalentTo(2))))
	}, SpecTimeout(minute))

	It("is not a generation that contains an edit of a user", func(ctx context.Context) {
		ns, let, called := newNamespace(ctx), make(chan struct{}), make(chan struct{})
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("make", func(ctx context.Context, req *kopf.Request[W]) error {
			close(called)
			awaitClosed(ctx, let)
			return paint("blue")(ctx, req)
		})))
		obj := widget(ns, "one")
		create(ctx, obj)
		awaitClosed(ctx, called)
		edit(ctx, obj, func(w W) { w.Spec.Size = 7 })
		close(let)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(And(
			HaveField("Generation", BeEquivalentTo(3)), HaveField("Spec.Color", "blue"),
			conditionstest.HaveCondition("Synced", metav1.ConditionTrue).OfGeneration(1)))
	}, SpecTimeout(minute))

	It("follows the changes of a timer and of a reconcile handler", func(ctx context.Context) {
		ns := newNamespace(ctx)
		start(ns, options(kopf.For(&v1.Widget{}, kopf.WithConditions("Synced", "Ready")).
			OnReconcile("sync", func(_ context.Context, req *kopf.Request[W]) error {
				req.Conditions().True("Synced", "UpToDate", "")
				if color := req.Object.Labels["color"]; color != "" {
					req.Object.Spec.Color = color
				}
				return nil
			}).
			Timer("count", daemons.Timer{Interval: 100 * millisecond}, func(_ context.Context, req *kopf.Request[W]) error {
				if req.Object.Labels["count"] == "" {
					return nil
				}
				req.Object.Spec.Tags = []string{"counted"}
				return nil
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(fresh(ctx, obj)).Should(describes(1, "Synced", "Ready"))
		for n, color := range []string{"blue", "green"} {
			edit(ctx, obj, func(w W) { w.Labels = map[string]string{"color": color} })
			Eventually(fresh(ctx, obj)).Should(And(HaveField("Spec.Color", color), describes(2+n, "Synced", "Ready")))
		}
		edit(ctx, obj, func(w W) { w.Labels["count"] = "yes" })
		Eventually(fresh(ctx, obj)).Should(And(HaveField("Spec.Tags", Equal([]string{"counted"})), describes(4, "Synced", "Ready")))
	}, SpecTimeout(minute))

	It("is also right if a handler sets it by hand", func(ctx context.Context) {
		ns := newNamespace(ctx)
		start(ns, options(kopf.For(kopf.Unstructured(widgetGVK)).OnReconcile("sync", func(_ context.Context, req *kopf.Request[U]) error {
			if err := unstructured.SetNestedField(req.Object.Object, "by "+req.Object.GetLabels()["color"], "spec", "color"); err != nil {
				return err
			}
			return unstructured.SetNestedField(req.Object.Object, req.Object.GetGeneration(), "status", "observedGeneration")
		})))
		obj := untyped(widgetGVK, ns, "one")
		create(ctx, obj)
		for n, color := range []string{"red", "green", "white"} {
			edit(ctx, obj, func(u U) { u.SetLabels(map[string]string{"color": color}) })
			Eventually(fresh(ctx, obj)).Should(And(
				HaveField("Object", HaveKeyWithValue("spec", HaveKeyWithValue("color", "by "+color))),
				HaveField("GetGeneration()", BeNumerically(">=", n+2)),
				Satisfy(func(u U) bool {
					observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
					return observed == u.GetGeneration()
				})))
		}
	}, SpecTimeout(minute))
})
