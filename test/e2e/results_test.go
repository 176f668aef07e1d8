package e2e

import (
	"context"
	"math"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("Results", func() {
	type W = *v1.Widget
	type U = *unstructured.Unstructured

	// withResult returns a handler that sets a result.
	withResult := func(seen *calls, id string, result any) kopf.Handler[U] {
		return func(_ context.Context, req *kopf.Request[U]) error {
			seen.notef("%s:%s", id, req.Reason)
			req.SetResult(result)
			return nil
		}
	}

	DescribeTable("are stored on the object, and are not updates (RES-01)",
		func(ctx context.Context, gvk schema.GroupVersionKind, opts []kopf.ResourceOption, path []string) {
			ns, seen := newNamespace(ctx), &calls{}
			start(ns, options(kopf.For(kopf.Unstructured(gvk), opts...).
				OnCreate("created", withResult(seen, "created", map[string]any{"ready": true, "ports": []int{1, 2}})).
				OnCreate("ns/named", withResult(seen, "named", struct {
					Size  int     `json:"size"`
					Ratio float64 `json:"ratio"`
				}{7, 0.5})).
				OnCreate("nothing", withResult(seen, "nothing", nil)).
				OnUpdate("updated", withResult(seen, "updated", "once"))))
			obj := untyped(gvk, ns, "one")
			create(ctx, obj)
			handled(ctx, obj)
			want := map[string]any{
				"created":  map[string]any{"ready": true, "ports": []any{int64(1), int64(2)}},
				"ns/named": map[string]any{"size": int64(7), "ratio": 0.5},
			}
			Expect(valueAt(ctx, obj, path...)()).To(Equal(want))
			Consistently(seen.all, quietTime).Should(Equal([]string{"created:create", "named:create", "nothing:create"}))

			edit(ctx, obj, func(u U) { u.SetLabels(map[string]string{"tier": "gold"}) })
			want["updated"] = "once"
			Eventually(valueAt(ctx, obj, path...)).Should(Equal(want))
			handled(ctx, obj)
			Consistently(func() int { return seen.count("updated:update") }, quietTime).Should(Equal(1))
		},
		Entry("with the status subresource", SpecTimeout(minute), widgetGVK, nil, []string{"status"}),
		Entry("without it", SpecTimeout(minute), gadgetGVK, nil, []string{"status"}),
		Entry("in a field of the status (SE-49)", SpecTimeout(minute), widgetGVK,
			[]kopf.ResourceOption{kopf.WithResults("status.kept.results")}, []string{"status", "kept", "results"}),
		Entry("in a field of the spec", SpecTimeout(minute), gadgetGVK,
			[]kopf.ResourceOption{kopf.WithResults("spec.results")}, []string{"spec", "results"}),
	)

	It("are stored for typed kinds whose Go type has no field for them", func(ctx context.Context) {
		ns := newNamespace(ctx)
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("created", func(_ context.Context, req *kopf.Request[W]) error {
			req.Object.Status.Phase = "ready"
			req.SetResult("done")
			return nil
		})))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(valueAt(ctx, untyped(widgetGVK, ns, "one"), "status")()).
			To(Equal(map[string]any{"phase": "ready", "created": "done"}))
	}, SpecTimeout(minute))

	It("that are maps are merged into earlier results; other results replace them (RES-02)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		var results = map[string][]any{
			"map":  {map[string]any{"a": 1, "b": map[string]any{"c": 1}}, map[string]any{"a": nil, "b": map[string]any{"d": 2}}},
			"list": {[]string{"a", "b"}, []string{"c"}},
			"text": {"old", "new"},
			"turn": {map[string]any{"a": 1}, "text"},
		}
		resource := kopf.For(kopf.Unstructured(widgetGVK))
		for _, id := range []string{"map", "list", "text", "turn"} {
			resource.On(id, []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, func(_ context.Context, req *kopf.Request[U]) error {
				if req.Reason == kopf.ReasonCreate {
					req.SetResult(results[id][0])
				} else {
					req.SetResult(results[id][1])
				}
				return nil
			})
		}
		start(ns, options(resource))
		obj := untyped(widgetGVK, ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(valueAt(ctx, obj, "status")()).To(Equal(map[string]any{
			"map":  map[string]any{"a": int64(1), "b": map[string]any{"c": int64(1)}},
			"list": []any{"a", "b"}, "text": "old", "turn": map[string]any{"a": int64(1)},
		}))
		edit(ctx, obj, func(u U) { u.SetLabels(map[string]string{"tier": "gold"}) })
		Eventually(valueAt(ctx, obj, "status")).Should(Equal(map[string]any{
			"map":  map[string]any{"b": map[string]any{"c": int64(1), "d": int64(2)}},
			"list": []any{"c"}, "text": "new", "turn": "text",
		}))
	}, SpecTimeout(minute))

	It("of failed attempts are not stored (RES-05)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		failing := func(err error) kopf.Handler[U] {
			return func(_ context.Context, req *kopf.Request[U]) error {
				if req.Attempt.Number > 0 {
					return nil
				}
				req.SetResult("too early")
				return err
			}
		}
		start(ns, options(kopf.For(kopf.Unstructured(widgetGVK)).
			OnCreate("repeated", failing(kopf.Temporary(errOutOfOrder, 0))).
			OnCreate("failed", failing(kopf.Permanent(errOutOfOrder))).
			OnCreate("ignored", failing(errOutOfOrder), kopf.ErrorMode(progress.ErrorsIgnored)).
			OnCreate("good", withResult(&calls{}, "good", "kept"))))
		obj := untyped(widgetGVK, ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(valueAt(ctx, obj, "status")()).To(Equal(map[string]any{"good": "kept"}))
	}, SpecTimeout(minute))

	It("remain while other handlers still fail, and across restarts", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		declare := func(outcome error) []kopf.Option {
			return options(kopf.For(kopf.Unstructured(widgetGVK)).
				OnCreate("first", withResult(seen, "first", "kept")).
				OnCreate("second", fails[U](seen, "second", outcome)))
		}
		before := start(ns, declare(kopf.Temporary(errOutOfOrder, 100*time.Millisecond)))
		obj := untyped(widgetGVK, ns, "one")
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "second")).Should(HaveField("Retries", BeNumerically(">", 0)))
		Expect(valueAt(ctx, obj, "status")()).To(Equal(map[string]any{"first": "kept"}))
		before.stop()
		start(ns, declare(nil))
		handled(ctx, obj)
		Expect(valueAt(ctx, obj, "status")()).To(Equal(map[string]any{"first": "kept"}))
		Expect(seen.count("first:create")).To(Equal(1))
	}, SpecTimeout(minute))

	It("without a JSON form are permanent failures with the reason (RES-07)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(kopf.Unstructured(widgetGVK)).
			OnCreate("channel", withResult(seen, "channel", make(chan int))).
			OnCreate("number", withResult(seen, "number", math.NaN())).
			OnCreate("good", withResult(seen, "good", "kept"))))
		obj := untyped(widgetGVK, ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal([]string{"channel:create", "number:create", "good:create"}))
		Expect(valueAt(ctx, obj, "status")()).To(Equal(map[string]any{"good": "kept"}))
		Expect(op.log.find("failed permanently", `"handler"="channel"`, "the result has no JSON form", "chan int")).To(HaveLen(1))
		Expect(op.log.find("failed permanently", `"handler"="number"`, "the result has no JSON form", "NaN")).To(HaveLen(1))
	}, SpecTimeout(minute))

	It("that a strict schema does not contain are dropped without other effects (RES-06)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(kopf.Unstructured(strictGVK)).
			OnCreate("created", withResult(seen, "created", "dropped")).
			OnCreate("repeated", failsUntil[U](seen, "repeated", 2, kopf.Temporary(errOutOfOrder, 50*time.Millisecond))).
			OnUpdate("updated", withResult(seen, "updated", "dropped")).
			OnDelete("deleted", withResult(seen, "deleted", "dropped"))))
		obj := untyped(strictGVK, ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		created := []string{"created:create", "repeated:create#0", "repeated:create#1", "repeated:create#2"}
		Consistently(seen.all, quietTime).Should(Equal(created))
		Expect(valueAt(ctx, obj, "status")()).To(BeEmpty())
		Expect(op.log.find("unknown field", "status.created")).NotTo(BeEmpty(), "the operator must log the warning of the server")

		edit(ctx, obj, func(u U) { u.SetLabels(map[string]string{"tier": "gold"}) })
		Eventually(seen.all).Should(Equal(append(created, "updated:update")))
		handled(ctx, obj)
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal(append(created, "updated:update", "deleted:delete")))
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))
})

var _ = Describe("A change of the object by a handler", func() {
	type W = *v1.Widget
	type U = *unstructured.Unstructured
	const never = time.Hour

	change := func(w W) {
		w.Spec.Color = "blue"
		w.Spec.Tags = append(w.Spec.Tags, "painted")
		w.Labels = map[string]string{"painted": "yes"}
		w.Annotations = map[string]string{"example.com/painted": "yes"}
		w.Status.Phase = "painted"
		w.Status.Log = append(w.Status.Log, "painted")
	}
	beChanged := func() OmegaMatcher {
		return And(
			HaveField("Spec", v1.WidgetSpec{Size: 1, Color: "blue", Tags: []string{"painted"}}),
			HaveField("Labels", map[string]string{"painted": "yes"}),
			HaveField("Annotations", HaveKeyWithValue("example.com/painted", "yes")),
			HaveField("Status", v1.WidgetStatus{Phase: "painted", Log: []string{"painted"}}),
		)
	}

	It("is stored, and is not an update (B-13, ESS-18, KW-03, PATCH-32, SE-51)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("created")
				change(req.Object)
				return nil
			}).
			OnUpdate("updated", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("updated %s", req.Diff)
				req.Object.Spec.Size *= 10
				req.Object.Spec.Tags = nil
				delete(req.Object.Labels, "painted")
				req.Object.Status = v1.WidgetStatus{}
				return nil
			}).
			OnDelete("deleted", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("deleted")
				req.Object.Status.Phase = "leaving"
				req.Object.Finalizers = append(req.Object.Finalizers[:0:0], req.Object.Finalizers...)
				return nil
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(beChanged())
		Consistently(seen.all, quietTime).Should(Equal([]string{"created"}))

		edit(ctx, obj, func(w W) { w.Spec.Size, w.Finalizers = 2, append(w.Finalizers, foreignFinalizer) })
		Eventually(fresh(ctx, obj)).Should(HaveField("Spec", v1.WidgetSpec{Size: 20, Color: "blue"}))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(HaveLen(2))
		Expect(fresh(ctx, obj)()).To(And(HaveField("Labels", BeEmpty()), HaveField("Status", v1.WidgetStatus{})))

		remove(ctx, obj)
		Eventually(fresh(ctx, obj)).Should(HaveField("Finalizers", ConsistOf(foreignFinalizer)))
		Expect(fresh(ctx, obj)()).To(HaveField("Status.Phase", "leaving"))
		edit(ctx, obj, func(w W) { w.Finalizers = nil })
		Eventually(gone(ctx, obj)).Should(BeTrue())
	}, SpecTimeout(minute))

	It("is stored for an untyped kind without the status subresource", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(kopf.Unstructured(gadgetGVK)).
			OnCreate("created", func(_ context.Context, req *kopf.Request[U]) error {
				seen.notef("created")
				unstructured.RemoveNestedField(req.Object.Object, "spec", "color")
				if err := unstructured.SetNestedStringSlice(req.Object.Object, []string{"a"}, "spec", "deep", "list"); err != nil {
					return err
				}
				return unstructured.SetNestedField(req.Object.Object, "ready", "status", "phase")
			}).
			OnUpdate("updated", ok[U](seen, "updated"))))
		obj := untyped(gadgetGVK, ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(valueAt(ctx, obj, "spec")()).To(Equal(map[string]any{"size": int64(1), "deep": map[string]any{"list": []any{"a"}}}))
		Expect(valueAt(ctx, obj, "status")()).To(Equal(map[string]any{"phase": "ready"}))
		Consistently(seen.all, quietTime).Should(Equal([]string{"created"}))
	}, SpecTimeout(minute))

	It("is stored when the handler fails, temporarily or permanently", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", func(_ context.Context, req *kopf.Request[W]) error {
				change(req.Object)
				if req.Object.Name == "later" {
					return kopf.Temporary(errOutOfOrder, never)
				}
				return kopf.Permanent(errOutOfOrder)
			}).
			OnUpdate("updated", ok[W](seen, "updated"))))
		later, lost := widget(ns, "later"), widget(ns, "lost")
		create(ctx, later)
		create(ctx, lost)
		handled(ctx, lost)
		Expect(fresh(ctx, lost)()).To(beChanged())
		Eventually(recordOf(ctx, later, "created")).Should(HaveField("Retries", 1))
		Expect(fresh(ctx, later)()).To(beChanged())
		Consistently(seen.all, quietTime).Should(BeEmpty())
	}, SpecTimeout(minute))

	It("during a resume is not an update, even if a resume handler is retried (B-13)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		handledBefore(ctx, obj, kopf.For(&v1.Widget{}).OnCreate("created", ok[W](&calls{}, "created")))

		start(ns, options(kopf.For(&v1.Widget{}).
			OnResume("resumed", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("resumed:%s#%d", req.Reason, req.Attempt.Number)
				req.Object.Spec.Color = "blue"
				if req.Attempt.Number == 0 {
					return kopf.Temporary(errOutOfOrder, 100*time.Millisecond)
				}
				return nil
			}).
			OnUpdate("updated", ok[W](seen, "updated"))))
		Eventually(seen.all).Should(HaveLen(2))
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(HaveField("Spec.Color", "blue"))
		Consistently(seen.all, quietTime).Should(Equal([]string{"resumed:resume#0", "resumed:resume#1"}))
	}, SpecTimeout(minute))

	It("is not an update if the server drops it (B-13)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(kopf.Unstructured(strictGVK)).
			OnCreate("created", func(_ context.Context, req *kopf.Request[U]) error {
				seen.notef("created")
				req.Object.SetLabels(map[string]string{"painted": "yes"})
				return unstructured.SetNestedField(req.Object.Object, "dropped", "spec", "unknown")
			}).
			OnUpdate("updated", ok[U](seen, "updated"))))
		obj := untyped(strictGVK, ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(valueAt(ctx, obj, "spec")()).To(Equal(map[string]any{"size": int64(1), "color": "red"}))
		Expect(valueAt(ctx, obj, "metadata", "labels")()).To(Equal(map[string]any{"painted": "yes"}))
		Consistently(seen.all, quietTime).Should(Equal([]string{"created"}))
	}, SpecTimeout(minute))

	It("is logged with its handler, once for all objects, if the server drops it", func(ctx context.Context) {
		ns := newNamespace(ctx)
		op := start(ns, options(kopf.For(kopf.Unstructured(strictGVK)).
			OnCreate("created", func(_ context.Context, req *kopf.Request[U]) error {
				req.SetResult("done")
				return unstructured.SetNestedField(req.Object.Object, "dropped", "status", "unknown")
			}).
			OnUpdate("updated", func(_ context.Context, req *kopf.Request[U]) error {
				return unstructured.SetNestedField(req.Object.Object, "kept", "status", "phase")
			}).
			Timer("timed", daemons.Timer{Interval: 100 * time.Millisecond}, func(_ context.Context, req *kopf.Request[U]) error {
				req.SetResult("done")
				return nil
			})))
		for _, name := range []string{"one", "two"} {
			obj := untyped(strictGVK, ns, name)
			create(ctx, obj)
			handled(ctx, obj)
			edit(ctx, obj, func(u U) { u.SetLabels(map[string]string{"edited": "yes"}) })
			Eventually(valueAt(ctx, obj, "status", "phase")).Should(Equal("kept"))
		}
		Eventually(func() []string { return op.log.find(`"field"="status.timed"`) }).ShouldNot(BeEmpty())
		found := op.log.find("has dropped a field", `"resource"="stricts.e2e.example.com"`)
		Expect(found).To(ConsistOf(
			And(ContainSubstring(`"handler"="created"`), ContainSubstring(`"field"="status.created"`)),
			And(ContainSubstring(`"handler"="created"`), ContainSubstring(`"field"="status.unknown"`)),
			And(ContainSubstring(`"handler"="timed"`), ContainSubstring(`"field"="status.timed"`)),
		))
	}, SpecTimeout(minute))

	It("of a typed kind is stored or logged even if the Go type lacks the field", func(ctx context.Context) {
		ns := newNamespace(ctx)
		op := start(ns, options(kopf.For(&corev1.ConfigMap{}).OnCreate("created", func(_ context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
			req.SetResult("done")
			return nil
		})))
		kept := start(ns, options(kopf.For(&v1.Widget{}).OnCreate("created", func(_ context.Context, req *kopf.Request[W]) error {
			req.SetResult("done")
			return nil
		})))
		create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "one"}})
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Eventually(func() []string { return op.log.find("has dropped a field", `"field"="status"`, "built-in") }).Should(HaveLen(1))
		Expect(kept.log.find("has dropped a field")).To(BeEmpty())
	}, SpecTimeout(minute))

	It("that the server rejects fails only its handler", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("first", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("first")
				req.SetResult("kept")
				return nil
			}).
			OnCreate("greedy", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("greedy#%d %s", req.Attempt.Number, req.Object.Labels["greedy"])
				req.Object.Spec.Size = 2000
				req.Object.Labels = map[string]string{"greedy": "yes"}
				req.SetResult("lost")
				return nil
			}, kopf.Retries(3), kopf.Backoff(300*time.Millisecond)).
			OnCreate("last", fails[W](seen, "last", kopf.Temporary(errOutOfOrder, never)))))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "greedy")).Should(And(
			HaveField("Retries", 3), HaveField("Failure", true), HaveField("Message", ContainSubstring("1000"))))
		Expect(recordOf(ctx, obj, "first")()).To(HaveField("Success", true))
		Consistently(seen.all, quietTime).Should(Equal([]string{"first", "greedy#0 ", "last:create#0", "greedy#1 ", "greedy#2 "}))
		Expect(fresh(ctx, obj)()).To(And(HaveField("Spec.Size", 1), HaveField("Labels", BeEmpty())))
		Expect(valueAt(ctx, untyped(widgetGVK, ns, "one"), "status")()).To(Equal(map[string]any{"first": "kept"}))
		Eventually(op.log.find).WithArguments("rejected the handler's changes", `"handler"="greedy"`, "1000").Should(HaveLen(3))
	}, SpecTimeout(minute))

	It("that the server rejects also discards the result of the handler (RES-05)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		start(ns, options(kopf.For(kopf.Unstructured(gadgetGVK)).
			OnCreate("greedy", func(_ context.Context, req *kopf.Request[U]) error {
				req.SetResult("lost")
				return unstructured.SetNestedField(req.Object.Object, int64(2000), "spec", "size")
			}, kopf.ErrorMode(progress.ErrorsPermanent)).
			OnCreate("modest", func(_ context.Context, req *kopf.Request[U]) error {
				req.SetResult("kept")
				return unstructured.SetNestedField(req.Object.Object, "blue", "spec", "color")
			})))
		obj := untyped(gadgetGVK, ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(valueAt(ctx, obj, "spec")()).To(Equal(map[string]any{"size": int64(1), "color": "blue"}))
		Expect(valueAt(ctx, obj, "status")()).To(Equal(map[string]any{"modest": "kept"}))
	}, SpecTimeout(minute))

	It("is not lost if another handler overwrites it with a value that the server rejects", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("before", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("before")
				req.Object.Spec.Color = "blue"
				return nil
			}).
			OnCreate("greedy", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("greedy")
				req.Object.Spec.Size = 2000
				return nil
			}, kopf.Retries(2), kopf.Backoff(100*time.Millisecond)).
			OnCreate("after", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("after")
				req.Object.Spec.Tags = []string{"after"}
				return nil
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(HaveField("Spec", v1.WidgetSpec{Size: 1, Color: "blue", Tags: []string{"after"}}))
		Expect(seen.count("greedy")).To(Equal(2))
	}, SpecTimeout(minute))

	DescribeTable("does not change the failure of the handler if it cannot be written (ERR-10, B-11)",
		func(ctx context.Context, change func(context.Context, W) error) {
			ns := newNamespace(ctx)
			lines := map[string]*timeline{"permanent": {}, "temporary": {}}
			start(ns, options(kopf.For(&v1.Widget{}).
				OnCreate("created", func(ctx context.Context, req *kopf.Request[W]) error {
					return timed(lines[req.Object.Name], func(ctx context.Context, req *kopf.Request[W]) error {
						if err := change(ctx, req.Object); err != nil {
							return err
						}
						if req.Object.Name == "permanent" {
							return kopf.Permanent(errOutOfOrder)
						}
						return kopf.Temporary(errOutOfOrder, 400*time.Millisecond)
					})(ctx, req)
				}, kopf.Retries(2), kopf.Backoff(10*time.Millisecond))))
			permanent, temporary := widget(ns, "permanent"), widget(ns, "temporary")
			create(ctx, permanent)
			create(ctx, temporary)
			handled(ctx, permanent)
			handled(ctx, temporary)
			Expect(lines["permanent"].times()).To(HaveLen(1), "a permanent error must prevent another call")
			Expect(lines["temporary"].gaps()).To(HaveExactElements(atLeast(400 * time.Millisecond)))
		},
		Entry("because the server rejects it", SpecTimeout(minute), func(_ context.Context, w W) error {
			w.Spec.Size = 2000
			return nil
		}),
		Entry("because of a concurrent change", SpecTimeout(minute), func(ctx context.Context, w W) error {
			faster := w.DeepCopy()
			faster.Spec.Tags = []string{"theirs", time.Now().String()}
			w.Spec.Tags = []string{"ours"}
			// After this write, the change of the handler belongs to an older version.
			return k8s.Patch(ctx, faster, client.MergeFrom(w))
		}),
	)
})

// valueAt returns a field of an untyped object from the server, or nil if it is missing.
func valueAt(ctx context.Context, obj *unstructured.Unstructured, path ...string) func() (any, error) {
	return func() (any, error) {
		now := kopf.Unstructured(obj.GroupVersionKind())
		if err := k8s.Get(ctx, client.ObjectKeyFromObject(obj), now); err != nil {
			return nil, err
		}
		value, _, err := unstructured.NestedFieldNoCopy(now.Object, path...)
		return value, err
	}
}
