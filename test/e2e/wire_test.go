package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// The specs create objects with the stored state of kopf. The library continues the cycles of these objects.
var _ = Describe("An object whose cycle was started by kopf", func() {
	const (
		prefix  = "kopf.zalando.org/"
		started = `"started":"2020-12-31T23:59:59.123456+00:00"`
	)

	It("is finished without repeating a finished handler (C-1, MIG-01)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := untyped(widgetGVK, ns, "one")
		obj.SetAnnotations(map[string]string{
			prefix + "c1":          `{` + started + `,"stopped":"2020-12-31T23:59:59.200000+00:00","purpose":"create","retries":1,"success":true,"failure":false}`,
			prefix + "c2":          `{` + started + `,"delayed":"2021-01-01T00:00:59.123456+00:00","purpose":"create","retries":1,"success":false,"failure":false,"message":"Not ready yet."}`,
			prefix + "c3":          `{` + started + `,"purpose":"create","retries":0,"success":false,"failure":false}`,
			prefix + "touch-dummy": "2021-01-01T00:01:00.000123+00:00",
		})
		create(ctx, obj)
		var message string
		start(ns, options(kopf.For(kopf.Unstructured(widgetGVK)).
			OnCreate("c1", ok[*unstructured.Unstructured](seen, "c1")).
			OnCreate("c2", func(_ context.Context, req *kopf.Request[*unstructured.Unstructured]) error {
				message = req.Attempt.Last
				seen.notef("c2#%d %s", req.Attempt.Number, req.Attempt.Started.Format("2006-01-02"))
				return nil
			}).
			OnCreate("c3", fails[*unstructured.Unstructured](seen, "c3", nil)).
			OnResume("rr", ok[*unstructured.Unstructured](seen, "rr"))))
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"c2#1 2020-12-31", "c3:create#0"}))
		Expect(message).To(Equal("Not ready yet."))
		now, err := fresh(ctx, obj)()
		Expect(err).NotTo(HaveOccurred())
		Expect(now.GetAnnotations()).To(And(HaveLen(2), HaveKeyWithValue(baselineKey, MatchJSON(`{"spec":{"size":1,"color":"red"}}`))))
		Consistently(seen.all).Should(HaveLen(2))
	}, SpecTimeout(minute))

	It("continues with a record from the status, which is then removed there (C-10)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := untyped(widgetGVK, ns, "one")
		create(ctx, obj)
		obj.Object["status"] = map[string]any{"phase": "Old", "kopf": map[string]any{"progress": map[string]any{
			"a": map[string]any{"started": "2020-12-31T23:59:59.123456", "retries": int64(2), "purpose": "create"},
		}}}
		Expect(k8s.Status().Update(ctx, obj)).To(Succeed())

		start(ns, options(kopf.For(kopf.Unstructured(widgetGVK)).
			OnCreate("a", failsUntil[*unstructured.Unstructured](seen, "a", 3, kopf.Temporary(nil, 300*millisecond)))))
		Eventually(seen.all).Should(Equal([]string{"a:create#2", "a:create#3"}))
		handled(ctx, obj)
		now, err := fresh(ctx, obj)()
		Expect(err).NotTo(HaveOccurred())
		progress, _, err := unstructured.NestedMap(now.Object, "status", "kopf", "progress")
		Expect(err).NotTo(HaveOccurred())
		Expect(progress).To(BeEmpty())
		Expect(now.Object).To(HaveKeyWithValue("status", HaveKeyWithValue("phase", "Old")))
	}, SpecTimeout(minute))

	It("is compared with the configuration stored by kopf, for any order of keys and any white space", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		same, changed := untyped(widgetGVK, ns, "same"), untyped(widgetGVK, ns, "changed")
		for _, obj := range []*unstructured.Unstructured{same, changed} {
			obj.SetLabels(map[string]string{"l": "v"})
			obj.SetAnnotations(map[string]string{baselineKey: `{"metadata": {"labels":{"l":"v"}}, "spec":{"color":"red","size": 1.0}}` + "\n"})
		}
		changed.Object["spec"] = map[string]any{"size": int64(2), "color": "red"}
		create(ctx, same)
		create(ctx, changed)
		note := func(_ context.Context, req *kopf.Request[*unstructured.Unstructured]) error {
			old, _, _ := unstructured.NestedFieldNoCopy(req.Old.Object, "spec", "size")
			seen.notef("%s:%s %v %s", req.Object.GetName(), req.Reason, old, fmt.Sprint(req.Diff))
			return nil
		}
		start(ns, options(kopf.For(kopf.Unstructured(widgetGVK)).OnUpdate("up", note).OnResume("re", note)))
		Eventually(seen.all).Should(ConsistOf(
			"same:resume 1 ",
			HavePrefix("changed:update 1 "), HavePrefix("changed:update 1 "), // one call of the update handler and one call of the resume handler
		))
		handled(ctx, changed)
		now, err := fresh(ctx, same)()
		Expect(err).NotTo(HaveOccurred())
		Expect(now.GetResourceVersion()).To(Equal(same.GetResourceVersion()), "an unchanged object must not be written")
	}, SpecTimeout(minute))

	It("is handled as new when its state is corrupt, with a warning (B-30, PIPE-20, SE-17)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		obj.Annotations = map[string]string{
			baselineKey:    `{"spec":`,
			prefix + "c1":  `not json`,
			prefix + "old": `{"retries":"many"}`,
		}
		create(ctx, obj)
		operator := start(ns, options(kopf.For(&v1.Widget{}).OnCreate("c1", ok[*v1.Widget](seen, "c1"))))
		Eventually(seen.all).Should(Equal([]string{"c1:create"}))
		Eventually(func(g Gomega) {
			now := &v1.Widget{}
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(obj), now)).To(Succeed())
			g.Expect(now.Annotations).To(And(HaveKeyWithValue(baselineKey, ContainSubstring(`"size":1`)), Not(HaveKey(prefix+"c1"))))
		}).Should(Succeed())
		Expect(operator.log.errors()).To(BeEmpty())
		Expect(operator.log.find("last-handled configuration is unreadable")).To(HaveLen(1))
	}, SpecTimeout(minute))
})
