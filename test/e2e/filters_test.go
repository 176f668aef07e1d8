package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// changed formats the diff of one changed field.
func changed(from, to any, path ...string) string {
	return fmt.Sprint(diff.Diff{{Op: diff.Change, Path: path, Old: from, New: to}})
}

// editStatus changes the status of the object on the server, and retries conflicts.
func editStatus[T client.Object](ctx context.Context, obj T, change func(T)) {
	GinkgoHelper()
	Eventually(func() error {
		if err := k8s.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		change(obj)
		return k8s.Status().Update(ctx, obj)
	}).Should(Succeed())
}

var _ = Describe("Filters", func() {
	type W = *v1.Widget

	It("call handlers only for objects that pass all of them (FLT-01, FLT-02, FLT-03)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		note := func(id string) kopf.Handler[W] {
			return func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s %s", req.Object.Name, id)
				return nil
			}
		}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("any", note("any")).
			OnCreate("labeled", note("labeled"), kopf.Label("tier")).
			OnCreate("gold", note("gold"), kopf.Label("tier", filter.Equal("gold"))).
			OnCreate("unlabeled", note("unlabeled"), kopf.Label("tier", filter.Absent)).
			OnCreate("silver-or-none", note("silver-or-none"), kopf.Label("tier", filter.Any(filter.Absent, filter.Equal("silver")))).
			OnCreate("noted", note("noted"), kopf.Annotation("example.com/note", filter.Match(func(v any) bool { return v == "x" }))).
			OnCreate("gold-and-noted", note("gold-and-noted"), kopf.Label("tier", filter.Equal("gold")), kopf.Annotation("example.com/note")).
			OnCreate("big", note("big"), kopf.Field("spec.size", filter.Match(func(v any) bool { n, _ := v.(int64); return n > 5 }))).
			OnCreate("tagged", note("tagged"), kopf.Field("spec.tags"))))
		gold, plain := widget(ns, "gold"), widget(ns, "plain")
		gold.Labels = map[string]string{"tier": "gold"}
		gold.Annotations = map[string]string{"example.com/note": "x"}
		plain.Spec.Size, plain.Spec.Tags = 6, []string{"a"}
		for _, obj := range []W{gold, plain} {
			create(ctx, obj)
			handled(ctx, obj)
		}
		Consistently(seen.all, quietTime).Should(Equal([]string{
			"gold any", "gold labeled", "gold gold", "gold noted", "gold gold-and-noted",
			"plain any", "plain unlabeled", "plain silver-or-none", "plain big", "plain tagged",
		}))
	}, SpecTimeout(minute))

	It("may require the kind of an owner (OwnedBy)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		parent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parent"}}
		create(ctx, parent)
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("all", ok[W](seen, "all")).
			OnCreate("owned", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("owned %s", req.Object.Name)
				return nil
			}, kopf.OwnedBy(&corev1.ConfigMap{})).
			OnCreate("of-secrets", ok[W](seen, "of-secrets"), kopf.OwnedBy(&corev1.Secret{}))))
		owned, orphan := widget(ns, "owned"), widget(ns, "orphan")
		owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "parent", UID: parent.UID}}
		for _, obj := range []W{owned, orphan} {
			create(ctx, obj)
			handled(ctx, obj)
		}
		Expect(seen.all()).To(ConsistOf("all:create", "owned owned", "all:create"))
	}, SpecTimeout(minute))

	It("that panic do not match and are logged; the engine calls the other handlers (B-26, FLT-15, PIPE-20, SE-26)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		resource := kopf.For(&v1.Widget{}).
			OnCreate("by-label", ok[W](seen, "by-label"), kopf.Label("tier", filter.Match(func(v any) bool { return v.(string) == "gold" }))).
			OnCreate("by-negation", ok[W](seen, "by-negation"), kopf.Label("tier", filter.Not(filter.Match(func(any) bool { panic("no negation") })))).
			OnCreate("good", ok[W](seen, "good")).
			OnUpdate("to", ok[W](seen, "to"), kopf.Field("spec.size", filter.To(filter.Match(func(any) bool { panic("no value") }))))
		resource.When(func(req *kopf.Request[W]) bool { return req.Old.Spec.Size > 0 }).OnCreate("by-when", ok[W](seen, "by-when"))
		kopf.OnChange(resource, "by-getter", func(W) int { panic("no getter") },
			func(context.Context, *kopf.Request[W], int, int) error { seen.notef("by-getter"); return nil })
		op := start(ns, options(resource))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", HaveKeyWithValue(baselineKey, ContainSubstring(`"size":2`))))
		Expect(seen.all()).To(Equal([]string{"good:create"}))
		for _, id := range []string{"by-label", "by-negation", "by-when", "by-getter", "to/spec.size"} {
			Expect(op.log.find("A filter panicked", " panicked: ", fmt.Sprintf(`"handler"=%q`, id), `"stack"=`)).NotTo(BeEmpty(), id)
		}
		Expect(op.log.find("A filter panicked", `"handler"="good"`)).To(BeEmpty())
	}, SpecTimeout(minute))
})

var _ = Describe("Handlers for fields", func() {
	type W = *v1.Widget
	type U = *unstructured.Unstructured

	// recordField returns a handler that records the values of its field.
	recordField := func(seen *calls, id string) kopf.Handler[W] {
		return func(_ context.Context, req *kopf.Request[W]) error {
			old, now := req.Field()
			seen.notef("%s:%s %v→%v", id, req.Reason, old, now)
			return nil
		}
	}

	It("receive diffs relative to their field; filters receive the whole object (DIFF-07, DIFF-08, DIFF-09, KW-09, HND-16)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		note := func(id string) kopf.Handler[W] {
			return func(_ context.Context, req *kopf.Request[W]) error {
				old, now := req.Field()
				seen.notef("%s:%s %v→%v %s", id, req.Reason, old, now, req.Diff)
				return nil
			}
		}
		var shown calls
		resource := kopf.For(&v1.Widget{}).
			OnUpdate("size", note("size"), kopf.Field("spec.size")).
			OnUpdate("spec", note("spec"), kopf.Field("spec")).
			OnDelete("gone", note("gone"), kopf.Field("spec.size"))
		resource.When(func(req *kopf.Request[W]) bool {
			if req.Reason == kopf.ReasonUpdate {
				shown.notef("%s", req.Diff)
			}
			return true
		}).OnUpdate("color", note("color"), kopf.Field("spec.color"))
		resource.OnUpdate("tags", note("tags"), kopf.Field("spec.tags"))
		start(ns, options(resource))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)

		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		want := []string{
			"size:update 1→2 " + changed(1, 2), "spec:update map[color:red size:1]→map[color:red size:2] " + changed(1, 2, "size"),
		}
		Eventually(seen.all).Should(Equal(want))
		handled(ctx, obj)
		Expect(shown.all()).To(HaveEach(changed(1, 2, "spec", "size")))

		edit(ctx, obj, func(w W) { w.Labels = map[string]string{"a": "b"} })
		Consistently(seen.all, quietTime).Should(Equal(want), "no watched field has changed")

		edit(ctx, obj, func(w W) { w.Spec.Tags = []string{"a"} })
		added := func(path ...string) string {
			return fmt.Sprint(diff.Diff{{Op: diff.Add, Path: path, New: []any{"a"}}})
		}
		want = append(want, "spec:update map[color:red size:2]→map[color:red size:2 tags:[a]] "+added("tags"), "tags:update <nil>→[a] "+added())
		Eventually(seen.all).Should(Equal(want))
		handled(ctx, obj)
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal(append(want, "gone:delete 2→2 ")))
	}, SpecTimeout(minute))

	It("may match the old and the new value (FLT-05, FLT-08)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnUpdate("from-red", recordField(seen, "from-red"), kopf.Field("spec.color", filter.From("red"))).
			OnUpdate("to-blue", recordField(seen, "to-blue"), kopf.Field("spec.color", filter.To("blue"))).
			OnUpdate("red-to-blue", recordField(seen, "red-to-blue"), kopf.Field("spec.color", filter.From("red"), filter.To("blue"))).
			OnUpdate("to-none", recordField(seen, "to-none"), kopf.Field("spec.color", filter.To(filter.Absent))).
			OnUpdate("green", recordField(seen, "green"), kopf.Field("spec.color", filter.Equal("green"))).
			OnField("came", "spec.color", recordField(seen, "came"), kopf.Field("spec.color", filter.From(filter.Absent)))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		want := []string{"came:create <nil>→red"}
		for _, step := range []struct {
			color string
			want  []string
		}{
			{"green", []string{"from-red:update red→green", "green:update red→green"}},
			{"blue", []string{"to-blue:update green→blue", "green:update green→blue"}},
			{"red", nil},
			{"blue", []string{"from-red:update red→blue", "to-blue:update red→blue", "red-to-blue:update red→blue"}},
			{"", []string{"to-none:update blue→<nil>"}},
			{"blue", []string{"to-blue:update <nil>→blue", "came:update <nil>→blue"}},
		} {
			By("setting the color to " + step.color)
			edit(ctx, obj, func(w W) { w.Spec.Color = step.color })
			want = append(want, step.want...)
			Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", HaveKeyWithValue(baselineKey, Or(
				ContainSubstring(fmt.Sprintf(`"color":%q`, step.color)),
				WithTransform(func(string) bool { return step.color == "" }, BeTrue()),
			))))
			Eventually(seen.all).Should(Equal(want))
			handled(ctx, obj)
		}
		Consistently(seen.all, quietTime).Should(Equal(want))
	}, SpecTimeout(minute))

	It("are called when the field is added, changed or removed (HND-17)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		resource := kopf.For(&v1.Widget{}).
			OnField("color", "spec.color", recordField(seen, "color")).
			OnDelete("hold", ok[W](seen, "hold"))
		first := start(ns, options(resource))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		want := []string{"color:create <nil>→red"}
		Expect(seen.all()).To(Equal(want))
		edit(ctx, obj, func(w W) { w.Spec.Color = "" })
		want = append(want, "color:update red→<nil>")
		Eventually(seen.all).Should(Equal(want))
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", HaveKeyWithValue(baselineKey, ContainSubstring(`"size":2`))))
		Consistently(seen.all, quietTime).Should(Equal(want))

		By("changing the color and deleting the object during downtime")
		first.stop()
		edit(ctx, obj, func(w W) { w.Spec.Color = "blue" })
		remove(ctx, obj)
		start(ns, options(resource))
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal(append(want, "color:delete <nil>→blue", "hold:delete")))
	}, SpecTimeout(minute))

	It("do not block a deletion, and are called for a deletion only if the field has changed (HND-17, FIN-02)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).OnField("color", "spec.color", recordField(seen, "color"))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(HaveField("Finalizers", BeEmpty()))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Consistently(seen.all, quietTime).Should(Equal([]string{"color:create <nil>→red"}))
	}, SpecTimeout(minute))

	It("have ids that end with the field, so that several can share one function (HND-03, HND-04, HND-13)", func(ctx context.Context) {
		ns, seen, read := newNamespace(ctx), &calls{}, make(chan struct{})
		fn := func(ctx context.Context, req *kopf.Request[W]) error {
			old, now := req.Field()
			seen.notef("%v→%v", old, now)
			if req.Attempt.Number == 0 && now == "red" {
				return kopf.Temporary(errOutOfOrder, 300*millisecond)
			}
			if req.Attempt.Number > 0 {
				awaitClosed(ctx, read) // the records remain until the spec has read them
			}
			req.SetResult(now)
			return nil
		}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnField("same", "spec.size", fn).
			OnField("same", "spec.color", fn).
			OnCreate("same", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("whole")
				return nil
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", And(
			HaveKeyWithValue("kopf.zalando.org/same.spec.size", ContainSubstring(`"success":true`)),
			HaveKeyWithValue("kopf.zalando.org/same.spec.color", ContainSubstring(`"success":false`)),
			HaveKeyWithValue("kopf.zalando.org/same", ContainSubstring(`"success":true`)))))
		close(read)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"<nil>→1", "<nil>→red", "whole", "<nil>→red"}))
		Expect(valueAt(ctx, untyped(widgetGVK, ns, "one"), "status")()).To(Equal(map[string]any{
			"same/spec.size": int64(1), "same/spec.color": "red",
		}))
	}, SpecTimeout(minute))

	It("may have several reasons; only updates must change the field (HND-16, FLT-07, CAUSE-24)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		reasons := []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonResume, kopf.ReasonDelete}
		resource := kopf.For(&v1.Widget{}).On("any", reasons, recordField(seen, "any"), kopf.Field("spec.tags"))
		first := start(ns, options(resource))
		obj, without := widget(ns, "one"), widget(ns, "without")
		obj.Spec.Tags = []string{"a"}
		create(ctx, without)
		create(ctx, obj)
		handled(ctx, obj)
		want := []string{"any:create <nil>→[a]"}
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", HaveKeyWithValue(baselineKey, ContainSubstring(`"size":2`))))
		Consistently(seen.all, quietTime).Should(Equal(want))
		edit(ctx, obj, func(w W) { w.Spec.Tags = nil })
		want = append(want, "any:update [a]→<nil>")
		Eventually(seen.all).Should(Equal(want))
		Eventually(fresh(ctx, obj)).Should(HaveField("Finalizers", BeEmpty()), "FLT-04, FIN-04: neither the old nor the new state has the field")
		edit(ctx, obj, func(w W) { w.Spec.Tags = []string{"b"} })
		want = append(want, "any:update <nil>→[b]")
		Eventually(seen.all).Should(Equal(want))
		handled(ctx, obj)
		first.stop()

		start(ns, options(resource))
		want = append(want, "any:resume [b]→[b]")
		Eventually(seen.all).Should(Equal(want))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal(append(want, "any:delete [b]→[b]")))
		Expect(fresh(ctx, without)()).To(And(HaveField("Annotations", BeEmpty()), HaveField("Finalizers", BeEmpty())), "PIPE-12: the operator must not write to an unmatched object")
	}, SpecTimeout(minute))

	It("make fields of the status essential, for changes of any client (ESS-04, B-13)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnField("phase", "status.phase", recordField(seen, "phase")).
			OnCreate("made", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("made")
				req.Object.Status.Phase = "Made"
				req.Object.Status.Log = []string{"made"}
				return nil
			}).
			OnUpdate("updated", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("updated %s %s", req.Old.Status.Phase, req.Diff)
				req.Object.Status.Phase = "Updated"
				return nil
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		want := []string{
			"made",
			"phase:update <nil>→Made", "updated  " + fmt.Sprint(diff.Diff{{Op: diff.Add, Path: diff.Path{"status"}, New: map[string]any{"phase": "Made"}}}),
			"phase:update Made→Updated", "updated Made " + changed("Made", "Updated", "status", "phase"),
		}
		Eventually(seen.all).Should(Equal(want))
		handled(ctx, obj)
		Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", HaveKeyWithValue(baselineKey,
			MatchJSON(`{"spec":{"size":1,"color":"red"},"status":{"phase":"Updated"}}`))), "the baseline must contain no other field of the status")
		Consistently(seen.all, quietTime).Should(Equal(want), "writing the same value must not be a change")

		editStatus(ctx, obj, func(w W) { w.Status.Log = append(w.Status.Log, "more") })
		Consistently(seen.all, quietTime).Should(Equal(want), "a change of another status field must not be an update")

		editStatus(ctx, obj, func(w W) { w.Status.Phase = "Broken" })
		want = append(want,
			"phase:update Updated→Broken", "updated Updated "+changed("Updated", "Broken", "status", "phase"),
			"phase:update Broken→Updated", "updated Broken "+changed("Broken", "Updated", "status", "phase"))
		Eventually(seen.all).Should(Equal(want))
		Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", HaveKeyWithValue(baselineKey, ContainSubstring(`"phase":"Updated"`))))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal(want))
	}, SpecTimeout(minute))

	It("make results essential, if the field contains them (ESS-04, B-13, RES-01)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(kopf.Unstructured(gadgetGVK)).
			OnUpdate("watch", func(_ context.Context, req *kopf.Request[U]) error {
				old, now := req.Field()
				seen.notef("watch %v→%v", old, now)
				return nil
			}, kopf.Field("status.made")).
			On("made", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, func(_ context.Context, req *kopf.Request[U]) error {
				size, _, _ := unstructured.NestedInt64(req.Object.Object, "spec", "size")
				seen.notef("made %d", size)
				req.SetResult(map[string]any{"size": size})
				return nil
			}, kopf.Field("spec.size", filter.Present)).
			OnCreate("other", func(_ context.Context, req *kopf.Request[U]) error {
				req.SetResult("x")
				return unstructured.SetNestedField(req.Object.Object, "y", "status", "made")
			})))
		obj := untyped(gadgetGVK, ns, "one")
		create(ctx, obj)
		Eventually(seen.all).Should(Equal([]string{"made 1", "watch <nil>→y"}))
		handled(ctx, obj)
		edit(ctx, obj, func(u U) { Expect(unstructured.SetNestedField(u.Object, int64(2), "spec", "size")).To(Succeed()) })
		Eventually(seen.all).Should(Equal([]string{"made 1", "watch <nil>→y", "made 2"}))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal([]string{"made 1", "watch <nil>→y", "made 2"}))
		edit(ctx, obj, func(u U) { Expect(unstructured.SetNestedField(u.Object, "z", "status", "made")).To(Succeed()) })
		Eventually(seen.all).Should(Equal([]string{"made 1", "watch <nil>→y", "made 2", "watch y→z"}))
	}, SpecTimeout(minute))

	It("of the status form chains of handlers, also across a restart (ESS-04, B-13)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		declare := func(ready bool) []kopf.Option {
			return options(kopf.For(&v1.Widget{}).
				OnCreate("create", func(ctx context.Context, req *kopf.Request[W]) error {
					req.Object.Status.Phase = "A"
					return req.Flush(ctx)
				}).
				OnField("next", "status.phase", func(_ context.Context, req *kopf.Request[W]) error {
					old, now := req.Field()
					if !ready {
						return kopf.Temporary(errOutOfOrder, 10*time.Millisecond)
					}
					seen.notef("%v→%v", old, now)
					req.Object.Status.Phase = map[any]string{"A": "B", "B": "C", "C": "C"}[now]
					return nil
				}))
		}
		before := start(ns, declare(false))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "next/status.phase")).Should(HaveField("Retries", BeNumerically(">", 0)))
		before.stop()
		start(ns, declare(true))
		Eventually(fresh(ctx, obj)).Should(HaveField("Status.Phase", "C"))
		Eventually(seen.all).Should(Equal([]string{"<nil>→A", "A→B", "B→C"}))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal([]string{"<nil>→A", "A→B", "B→C"}))
	}, SpecTimeout(minute))

	It("of event handlers are essential; fields of index handlers are not (ESS-04)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		resource := kopf.For(&v1.Widget{}).
			OnEvent("record", func(context.Context, *kopf.Request[W]) error { return nil }, kopf.Field("status.phase")).
			OnUpdate("updated", func(_ context.Context, req *kopf.Request[W]) error { seen.notef("%s", req.Diff); return nil })
		kopf.IndexBy(resource, "logs", func(context.Context, *kopf.Request[W]) (map[string]int, error) { return nil, nil }, kopf.Field("status.log"))
		start(ns, options(resource))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		editStatus(ctx, obj, func(w W) { w.Status.Log = []string{"a"} })
		Consistently(seen.all, quietTime).Should(BeEmpty())
		editStatus(ctx, obj, func(w W) { w.Status.Phase = "New" })
		Eventually(seen.all).Should(Equal([]string{fmt.Sprint(diff.Diff{
			{Op: diff.Add, Path: diff.Path{"status"}, New: map[string]any{"phase": "New"}},
		})}))
	}, SpecTimeout(minute))

	It("change the essence once when a new version of the operator adds or removes them (ESS-22, MIG-02)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		version := func(fields ...string) []kopf.Option {
			r := kopf.For(kopf.Unstructured(gadgetGVK)).
				OnUpdate("updated", func(_ context.Context, req *kopf.Request[U]) error { seen.notef("%s", req.Diff); return nil })
			for _, path := range fields {
				r.OnField("field", path, func(context.Context, *kopf.Request[U]) error { return nil })
			}
			return options(r)
		}
		obj := untyped(gadgetGVK, ns, "one")
		obj.Object["status"] = map[string]any{"phase": "Old"}
		handledBefore(ctx, obj, version()...)
		status := diff.Item{Op: diff.Add, Path: diff.Path{"status"}, New: map[string]any{"phase": "Old"}}
		want := []string{fmt.Sprint(diff.Diff{status})}
		for range 2 {
			op := start(ns, version("status.phase"))
			Eventually(seen.all).Should(Equal(want))
			handled(ctx, obj)
			Consistently(seen.all, quietTime).Should(Equal(want))
			op.stop()
		}
		start(ns, version())
		status.Op, status.Old, status.New = diff.Remove, status.New, nil
		want = append(want, fmt.Sprint(diff.Diff{status}))
		Eventually(seen.all).Should(Equal(want))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal(want))
	}, SpecTimeout(minute))

	It("of all annotations include those of kubectl, but not our own (ESS-05)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		const applied = "kubectl.kubernetes.io/last-applied-configuration"
		start(ns, options(kopf.For(&v1.Widget{}).
			OnField("noted", "metadata.annotations", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s %s", req.Reason, req.Diff)
				if req.Reason == kopf.ReasonUpdate && req.Attempt.Number == 0 {
					return kopf.Temporary(errOutOfOrder, 0) // the first attempt fails, so that the object has records
				}
				return nil
			})))
		obj := widget(ns, "one")
		obj.Annotations = map[string]string{applied: "{}"}
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Annotations[applied] = `{"a":1}` })
		update := "update " + changed("{}", `{"a":1}`, applied)
		want := []string{"create " + fmt.Sprint(diff.Diff{{Op: diff.Add, New: map[string]any{applied: "{}"}}}), update, update}
		Eventually(seen.all).Should(Equal(want))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal(want))
	}, SpecTimeout(minute))
})

var _ = Describe("OnChange", func() {
	type W = *v1.Widget

	It("receives both values in their Go type, for each kind of change (HND-17)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		resource := kopf.For(&v1.Widget{}).OnDelete("hold", ok[W](seen, "hold"))
		kopf.OnChange(resource, "area", func(w W) int { return w.Spec.Size * w.Spec.Size },
			func(_ context.Context, req *kopf.Request[W], old, now int) error {
				seen.notef("%s %d→%d", req.Reason, old, now)
				return nil
			})
		kopf.OnChange(resource, "tags", func(w W) []string { return w.Spec.Tags },
			func(_ context.Context, req *kopf.Request[W], old, now []string) error {
				seen.notef("%s %q→%q", req.Reason, old, now)
				return nil
			})
		first := start(ns, options(resource))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		want := []string{"create 0→1"}
		edit(ctx, obj, func(w W) { w.Spec.Size, w.Spec.Tags = 2, []string{"a"} })
		want = append(want, "update 1→4", `update []→["a"]`)
		Eventually(seen.all).Should(Equal(want))
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = -2 })
		Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", HaveKeyWithValue(baselineKey, ContainSubstring(`"size":-2`))))
		Consistently(seen.all, quietTime).Should(Equal(want), "an unchanged value must not call the handler")
		first.stop()

		edit(ctx, obj, func(w W) { w.Spec.Size = 3 })
		remove(ctx, obj)
		start(ns, options(resource))
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(ConsistOf(append(want, "hold:delete", "delete 4→9")))
	}, SpecTimeout(minute))
})
