package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions/conditionstest"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// setCondition changes a condition on the server, like another controller.
func setCondition(ctx context.Context, obj client.Object, kind string, status metav1.ConditionStatus) {
	GinkgoHelper()
	Eventually(func() error {
		if err := k8s.Get(ctx, keyOf(obj), obj); err != nil {
			return err
		}
		return conditions.Write(ctx, k8s, obj, func(s *conditions.Set) {
			s.Set(metav1.Condition{Type: kind, Status: status, Reason: "Said", Message: time.Now().String()})
		})
	}).Should(Succeed())
}

func is(kind string, status metav1.ConditionStatus, reason string) gomegatypes.GomegaMatcher {
	return conditionstest.HaveCondition(kind, status).WithReason(reason)
}

var _ = Describe("Conditions", func() {
	type W = *v1.Widget
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown

	It("that are declared are set and summarized at the first reconcile in one write (B-60, B-61, SE-52)", func(ctx context.Context) {
		ns, wire := newNamespace(ctx), &writeRecorder{}
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}, kopf.WithConditions("Ready", "Synced", "Checked")).
			OnCreate("create", func(_ context.Context, req *kopf.Request[W]) error {
				req.Conditions().True("Synced", "UpToDate", "in sync")
				req.Object.Status.Phase = "made"
				return nil
			})), wire.setup())
		handled(ctx, a)
		now, err := fresh(ctx, a)()
		Expect(err).NotTo(HaveOccurred())
		Expect(now).To(And(is("Synced", yes, "UpToDate"), is("Checked", unknown, "NotReported"), conditionstest.HaveCondition("Ready", unknown)))
		Expect(now.Status.Phase).To(Equal("made"))
		Expect(now.Status.Conditions[0].ObservedGeneration).To(Equal(now.Generation))
		statuses := 0
		for _, request := range wire.all() {
			if strings.HasSuffix(request, "/status") {
				statuses++
			}
		}
		Expect(statuses).To(Equal(1), "%v", wire.all())
		setCondition(ctx, a, "Checked", yes)
		edit(ctx, a, func(w W) { w.Spec.Size++ })
		Eventually(fresh(ctx, a)).Should(conditionstest.HaveCondition("Ready", yes))
	}, SpecTimeout(minute))

	It("report the progress of a handler (B-61)", func(ctx context.Context) {
		ns, let := newNamespace(ctx), make(chan struct{})
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("first", func(_ context.Context, req *kopf.Request[W]) error {
				select {
				case <-let:
					return nil
				default:
					return errors.New("not yet")
				}
			}, kopf.Backoff(100*time.Millisecond), kopf.ReportCondition("Created")).
			OnCreate("second", func(context.Context, *kopf.Request[W]) error { return nil },
				kopf.After("first"), kopf.ReportCondition("Second")).
			OnCreate("never", func(context.Context, *kopf.Request[W]) error { return kopf.Permanent(errors.New("invalid")) },
				kopf.ReportCondition("Possible"))))
		Eventually(fresh(ctx, a)).Should(And(
			is("Created", no, "Retrying"), is("Second", unknown, "Running"), is("Possible", no, "Failed")))
		close(let)
		Eventually(fresh(ctx, a)).Should(And(is("Created", yes, "Succeeded"), is("Second", yes, "Succeeded")))
		handled(ctx, a)
	}, SpecTimeout(minute))

	It("are set from errors of handlers; explicit changes of handlers override their progress conditions (B-62)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("connects", func(context.Context, *kopf.Request[W]) error {
			return fmt.Errorf("connecting: %w", conditions.Error{Type: "Connected", Reason: "Refused", Err: errors.New("closed")})
		}, kopf.ReportCondition("Connected"), kopf.Backoff(time.Hour))))
		Eventually(fresh(ctx, a)).Should(is("Connected", no, "Refused"))
		edit(ctx, a, func(w W) { w.Spec.Size++ })
		Consistently(fresh(ctx, a)).Should(is("Connected", no, "Refused"))
	}, SpecTimeout(minute))

	It("of other controllers are kept, even if these controllers write them frequently (B-60)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := untyped(widgetGVK, ns, "a")
		create(ctx, a)
		type U = *unstructured.Unstructured
		seen := &calls{}
		r := start(ns, options(kopf.For(kopf.Unstructured(widgetGVK)).
			Timer("ours", daemons.Timer{Interval: time.Millisecond}, func(_ context.Context, req *kopf.Request[U]) error {
				seen.notef("called")
				req.Conditions().Set(metav1.Condition{Type: "Ours", Status: yes, Reason: fmt.Sprint("R", len(seen.all()))})
				return nil
			}).
			OnUpdate("update", func(_ context.Context, req *kopf.Request[U]) error {
				seen.notef("updated")
				req.Conditions().Set(metav1.Condition{Type: "Updated", Status: yes, Reason: fmt.Sprint("R", len(seen.all()))})
				return nil
			})))
		handled(ctx, a) // otherwise the edits could belong to the creation
		for n := range 50 {
			setCondition(ctx, a, "Theirs", []metav1.ConditionStatus{yes, no}[n%2])
			Expect(k8s.Get(ctx, keyOf(a), a)).To(Succeed())
			Expect(a).To(conditionstest.HaveCondition("Theirs", []metav1.ConditionStatus{yes, no}[n%2]))
			edit(ctx, a, func(u U) { Expect(unstructured.SetNestedField(u.Object, int64(n), "spec", "size")).To(Succeed()) })
			if n%8 == 7 { // the engine may combine edits, so wait for one update for each eight of them
				Eventually(func() int { return seen.count("updated") }).Should(BeNumerically(">", n/8))
			}
		}
		Expect(seen.count("updated")).To(BeNumerically(">", 5))
		Eventually(fresh(ctx, a)).Should(And(conditionstest.HaveCondition("Ours", yes), conditionstest.HaveCondition("Updated", yes),
			conditionstest.HaveCondition("Theirs", no)))
		Expect(r.log.errors()).To(BeEmpty())
	}, SpecTimeout(2*minute))

	It("call OnCondition handlers, but no update handlers, when any client changes them", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).
			OnUpdate("update", ok[W](seen, "update")).
			OnCreate("create", func(_ context.Context, req *kopf.Request[W]) error {
				req.Conditions().True("Ours", "Made", "")
				return nil
			}).
			OnCondition("theirs", "Theirs", func(_ context.Context, req *kopf.Request[W]) error {
				old, now := req.Field()
				seen.notef("theirs %v → %v", old, now)
				Expect(req.Old == nil || req.Old.Spec.Size == 1).To(BeTrue())
				if seen.count(fmt.Sprintf("theirs %v → %v", old, now)) == 1 {
					return kopf.Temporary(errors.New("not yet"), 0)
				}
				return nil
			}).
			OnCondition("ours", "Ours", func(_ context.Context, req *kopf.Request[W]) error {
				old, now := req.Field()
				seen.notef("ours %v → %v", old, now)
				return nil
			})))
		Eventually(seen.all).Should(Equal([]string{"ours <nil> → True"}))
		handled(ctx, a)
		setCondition(ctx, a, "Theirs", yes)
		Eventually(seen.all).Should(HaveLen(3))
		handled(ctx, a)
		setCondition(ctx, a, "Theirs", yes) // only the message changes
		Consistently(seen.all).Should(HaveLen(3))
		setCondition(ctx, a, "Theirs", no)
		Eventually(seen.all).Should(Equal([]string{
			"ours <nil> → True", "theirs <nil> → True", "theirs <nil> → True", "theirs True → False", "theirs True → False",
		}))
		edit(ctx, a, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(ContainElement("update:update"))
		Consistently(seen.all).Should(HaveLen(6))
	}, SpecTimeout(minute))

	It("call OnCondition handlers when the operator itself changes them, in the root condition, a handler, or a timer", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		record := func(_ context.Context, req *kopf.Request[W]) error {
			old, now := req.Field()
			seen.notef("%s %v → %v", req.Handler, old, now)
			return nil
		}
		small := func(req *kopf.Request[W]) metav1.ConditionStatus {
			if req.Object.Spec.Size < 10 {
				return yes
			}
			return no
		}
		r := start(ns, options(kopf.For(&v1.Widget{}, kopf.WithConditions("Ready", "Sized")).
			On("size", createOrUpdate, func(_ context.Context, req *kopf.Request[W]) error {
				req.Conditions().Set(metav1.Condition{Type: "Sized", Status: small(req), Reason: "Looked"})
				return nil
			}).
			Timer("watches", daemons.Timer{Interval: 50 * time.Millisecond}, func(_ context.Context, req *kopf.Request[W]) error {
				req.Conditions().Set(metav1.Condition{Type: "Watched", Status: small(req), Reason: "Looked"})
				return nil
			}).
			OnCondition("ready", "Ready", record).
			OnCondition("sized", "Sized", record).
			OnCondition("watched", "Watched", record)))
		want := []string{"ready <nil> → True", "sized <nil> → True", "watched <nil> → True"}
		Eventually(seen.all).Should(ConsistOf(want))
		for _, step := range []struct {
			size          int
			before, after string
		}{{20, "True", "False"}, {1, "False", "True"}} {
			handled(ctx, a)
			edit(ctx, a, func(w W) { w.Spec.Size = step.size })
			for _, id := range []string{"ready", "sized", "watched"} {
				want = append(want, id+" "+step.before+" → "+step.after)
			}
			Eventually(seen.all).Should(ConsistOf(want))
		}
		Consistently(seen.all).Should(ConsistOf(want))
		Expect(r.log.find("has stored other values")).To(BeEmpty())
		Expect(r.log.find("has dropped a field")).To(BeEmpty())
	}, SpecTimeout(minute))

	It("call handlers for kinds that belong to other operators", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		labels := map[string]string{"app": "a"}
		a := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "c"}},
			}},
		}}
		create(ctx, a)
		start(ns, options(kopf.For(&appsv1.Deployment{}).OnCondition("available", "Available",
			func(_ context.Context, req *kopf.Request[*appsv1.Deployment]) error {
				old, now := req.Field()
				seen.notef("%v → %v", old, now)
				return nil
			})))
		for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue} {
			Eventually(func() error {
				if err := k8s.Get(ctx, keyOf(a), a); err != nil {
					return err
				}
				a.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: status, LastUpdateTime: metav1.Now()}}
				return k8s.Status().Update(ctx, a)
			}).Should(Succeed())
			Eventually(seen.all).Should(ContainElement(HaveSuffix("→ " + string(status))))
		}
		Expect(seen.all()).To(Equal([]string{"<nil> → False", "False → True"}))
	}, SpecTimeout(minute))

	It("filter handlers (B-62)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).
			OnReconcile("yes", ok[W](seen, "yes"), kopf.WhenCondition("Ready", yes)).
			Daemon("no", daemons.Daemon{}, stays[W](seen, "no"), kopf.WhenCondition("Ready", no))))
		Consistently(seen.all).Should(BeEmpty())
		setCondition(ctx, a, "Ready", no)
		Eventually(seen.all).Should(Equal([]string{"no begins for a"}))
		setCondition(ctx, a, "Ready", yes)
		Eventually(seen.all).Should(ConsistOf("no begins for a", "no ends for a: "+daemons.ErrFilteredOut.Error(), "yes:reconcile"))
	}, SpecTimeout(minute))

	It("can be written before a handler ends (Flush)", func(ctx context.Context) {
		ns, let := newNamespace(ctx), make(chan struct{})
		a, b := widget(ns, "a"), widget(ns, "b")
		create(ctx, a)
		works := func(ctx context.Context, req *kopf.Request[W]) error {
			for n, step := range []string{"Begun", "Halfway"} {
				req.Conditions().Set(metav1.Condition{Type: "Done", Status: no, Reason: step})
				req.Object.Status.Log = append(req.Object.Status.Log, step)
				if err := req.Flush(ctx); err != nil {
					return err
				}
				if n == 0 {
					Expect(req.Flush(ctx)).To(Succeed(), "Flush must succeed without changes")
				}
			}
			<-let
			req.Conditions().True("Done", "Made", "")
			req.Object.Status.Log = append(req.Object.Status.Log, "end")
			return nil
		}
		r := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("works", works, kopf.Field("metadata.name", filter.Equal("a"))).
			Daemon("works-too", daemons.Daemon{}, works, kopf.Field("metadata.name", filter.Equal("b")))))
		create(ctx, b)
		for _, obj := range []W{a, b} {
			Eventually(fresh(ctx, obj)).Should(And(is("Done", no, "Halfway"), HaveField("Status.Log", Equal([]string{"Begun", "Halfway"}))))
		}
		close(let)
		for _, obj := range []W{a, b} {
			Eventually(fresh(ctx, obj)).Should(And(is("Done", yes, "Made"), HaveField("Status.Log", Equal([]string{"Begun", "Halfway", "end"}))))
		}
		Expect(r.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("keep their transition time if a change is reverted in the same reconcile, unless Flush has written it", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		old := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
		create(ctx, a)
		a.Status.Conditions = []metav1.Condition{
			{Type: "Kept", Status: yes, Reason: "Old", LastTransitionTime: old},
			{Type: "Flushed", Status: yes, Reason: "Old", LastTransitionTime: old},
		}
		Expect(k8s.Status().Update(ctx, a)).To(Succeed())
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("change", func(ctx context.Context, req *kopf.Request[W]) error {
				req.Conditions().False("Flushed", "Changed", "")
				if err := req.Flush(ctx); err != nil {
					return err
				}
				req.Conditions().True("Flushed", "Old", "")
				req.Conditions().False("Kept", "Changed", "")
				return nil
			}).
			OnCreate("revert", func(_ context.Context, req *kopf.Request[W]) error {
				req.Conditions().True("Kept", "Old", "")
				return nil
			}, kopf.After("change")), kopf.WithCheckpoint(time.Hour))) // the long checkpoint interval prevents a write between the two handlers
		handled(ctx, a)
		now, err := fresh(ctx, a)()
		Expect(err).NotTo(HaveOccurred())
		Expect(now).To(And(is("Kept", yes, "Old"), is("Flushed", yes, "Old")))
		Expect(now.Status.Conditions[0].LastTransitionTime.Time).To(BeTemporally("==", old.Time))
		Expect(now.Status.Conditions[1].LastTransitionTime.Time).To(BeTemporally("~", time.Now(), time.Minute))
	}, SpecTimeout(minute))

	It("of a kind without the status subresource are not written again without a change", func(ctx context.Context) {
		type U = *unstructured.Unstructured
		ns, wire, seen := newNamespace(ctx), &writeRecorder{}, &calls{}
		a := untyped(gadgetGVK, ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(kopf.Unstructured(gadgetGVK), kopf.WithConditions("Ready", "Created", "Synced", "Polled")).
			OnCreate("create", failsUntil[U](seen, "create", 1, kopf.Temporary(errOutOfOrder, 0)), kopf.ReportCondition("Created")).
			OnUpdate("update", ok[U](seen, "update")).
			OnReconcile("sync", ok[U](seen, "sync"), kopf.ReportCondition("Synced")).
			OnCondition("record", "Ready", func(_ context.Context, req *kopf.Request[U]) error {
				_, now := req.Field()
				seen.notef("ready %v", now)
				return nil
			}).
			Timer("recorded", daemons.Timer{Interval: 50 * time.Millisecond}, func(_ context.Context, req *kopf.Request[U]) error {
				req.Conditions().True("Polled", "Timer", "")
				return nil
			})), wire.setup())
		Eventually(fresh(ctx, a)).Should(And(is("Created", yes, "Succeeded"), is("Synced", yes, "Succeeded"), is("Polled", yes, "Timer")))
		handled(ctx, a)
		edit(ctx, a, func(u U) { Expect(unstructured.SetNestedField(u.Object, int64(2), "spec", "size")).To(Succeed()) })
		Eventually(seen.all).Should(ContainElement("update:update"))
		Eventually(fresh(ctx, a)).Should(conditionstest.HaveCondition("Ready", yes))
		Eventually(seen.all).Should(ContainElement("ready True"))
		handled(ctx, a)
		written := func() int { return len(wire.all()) }
		before := 0
		Eventually(func() bool { last := before; before = written(); return last == before }).WithPolling(500 * time.Millisecond).Should(BeTrue())
		Consistently(written, 2*time.Second).Should(Equal(before), "%v", wire.all())
		Expect(before).To(BeNumerically("<", 30), "%v", wire.all())
		Expect(seen.count("update:update")).To(Equal(1), "the operator's own conditions must not be updates")
		now, err := fresh(ctx, a)()
		Expect(err).NotTo(HaveOccurred())
		for _, one := range now.Object["status"].(map[string]any)["conditions"].([]any) {
			Expect(one).NotTo(HaveKey("observedGeneration"))
		}
	}, SpecTimeout(minute))

	DescribeTable("are rejected if the schema of the kind drops them (B-33)",
		func(ctx context.Context, field string, declare func() *kopf.Resource[*unstructured.Unstructured]) {
			err := kopf.New(newManager(newNamespace(ctx), &logRecorder{}), declare()).Start(ctx)
			Expect(err).To(MatchError(And(ContainSubstring("Strict: the schema of the kind has no field "+field+","),
				ContainSubstring("would drop the conditions: add the field"))))
		},
		Entry("declared", SpecTimeout(minute), "status.conditions", func() *kopf.Resource[*unstructured.Unstructured] {
			return kopf.For(kopf.Unstructured(strictGVK), kopf.WithConditions("Ready")).OnCreate("a", ok[*unstructured.Unstructured](&calls{}, "a"))
		}),
		Entry("of a handler", SpecTimeout(minute), "status.conditions", func() *kopf.Resource[*unstructured.Unstructured] {
			return kopf.For(kopf.Unstructured(strictGVK)).OnCreate("a", ok[*unstructured.Unstructured](&calls{}, "a"), kopf.ReportCondition("Ready"))
		}),
		Entry("of a reconcile handler", SpecTimeout(minute), "status.conditions", func() *kopf.Resource[*unstructured.Unstructured] {
			return kopf.For(kopf.Unstructured(strictGVK)).OnReconcile("a", ok[*unstructured.Unstructured](&calls{}, "a"), kopf.ReportCondition("Ready"))
		}),
		Entry("set by req.Conditions", SpecTimeout(minute), "status.phase.checks", func() *kopf.Resource[*unstructured.Unstructured] {
			return kopf.For(kopf.Unstructured(strictGVK), kopf.WithConditions("example.com/Ready"), kopf.WithConditionsIn(conditions.At("status.phase.checks"), conditions.AsMap())).
				OnCreate("a", ok[*unstructured.Unstructured](&calls{}, "a"))
		}),
	)

	It("of a built-in kind pass the check of its schema (B-33)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		pods := corev1.SchemeGroupVersion.WithKind("Pod")
		start(ns, options(kopf.For(kopf.Unstructured(pods), kopf.WithConditions("Ready")).
			OnCreate("a", ok[*unstructured.Unstructured](seen, "a"))))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
		create(ctx, pod)
		Eventually(fresh(ctx, untyped(pods, ns, "a"))).Should(is("Ready", unknown, "NotReported"))
	}, SpecTimeout(minute))

	It("that are invalid fail the handler", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		create(ctx, a)
		r := start(ns, options(kopf.For(&v1.Widget{}).OnCreate("wrong", func(_ context.Context, req *kopf.Request[W]) error {
			req.Conditions().True("not a name", "Reason", "")
			return nil
		})))
		handled(ctx, a)
		Expect(r.log.find("failed permanently", "not a name")).NotTo(BeEmpty())
	}, SpecTimeout(minute))

	It("that are invalid are also reported if the handler has failed", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		r := start(ns, options(kopf.For(&v1.Widget{}).OnCreate("wrong", func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("called")
			req.Conditions().True("not a name", "Reason", "")
			return kopf.Temporary(errOutOfOrder, 0)
		})))
		handled(ctx, a)
		Expect(r.log.find("failed permanently", "not a name", errOutOfOrder.Error())).NotTo(BeEmpty())
		Expect(seen.all()).To(HaveLen(1))
	}, SpecTimeout(minute))
})

var _ = Describe("Children", func() {
	type W = *v1.Widget

	It("are owned by the object of a handler (HIER-01, HIER-02)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		a.Labels = map[string]string{"team": "blue"}
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("makes", func(ctx context.Context, req *kopf.Request[W]) error {
			child := &corev1.ConfigMap{Data: map[string]string{"a": "b"}}
			if err := req.Adopt(child); err != nil {
				return err
			}
			return req.Client.Create(ctx, child)
		})))
		handled(ctx, a)
		var list corev1.ConfigMapList
		Expect(k8s.List(ctx, &list, client.InNamespace(ns), client.MatchingLabels{"team": "blue"})).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(list.Items[0].Name).To(HavePrefix("a-"))
		Expect(metav1.IsControlledBy(&list.Items[0], a)).To(BeTrue())
	}, SpecTimeout(minute))
})
