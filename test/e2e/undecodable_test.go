package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// setTime sets the time of a condition. The schema of widgets accepts any value, and an operator in Python may have stored a float.
func setTime(ctx context.Context, obj *v1.Widget, value string) {
	GinkgoHelper()
	body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Made","message":"","lastTransitionTime":%s}]}}`, value)
	raw := untyped(widgetGVK, obj.Namespace, obj.Name)
	Expect(k8s.Status().Patch(ctx, raw, client.RawPatch("application/merge-patch+json", []byte(body)))).To(Succeed())
}

const (
	pythonTime = "1700000000.5"
	goodTime   = `"2026-01-02T03:04:05Z"`
	timeFault  = "status.conditions[0].lastTransitionTime: json: cannot unmarshal number into Go struct field Condition.status.conditions.lastTransitionTime of type string"
)

// createBroken creates a widget that does not decode, and removes it at the end, because other specs watch all namespaces.
func createBroken(ctx context.Context, obj *v1.Widget) {
	GinkgoHelper()
	create(ctx, obj)
	removeAtEnd(obj)
	setTime(ctx, obj, pythonTime)
}

func removeAtEnd(obj *v1.Widget) {
	DeferCleanup(func(ctx context.Context) {
		raw := untyped(widgetGVK, obj.Namespace, obj.Name)
		err := k8s.Patch(ctx, raw, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		Expect(client.IgnoreNotFound(errors.Join(err))).To(Succeed())
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, raw))).To(Succeed())
	})
}

var _ = Describe("Objects that do not decode into the Go type", func() {
	var seen *calls
	var widgets *kopf.Resource[*v1.Widget]

	BeforeEach(func() {
		seen = &calls{}
		note := func(_ context.Context, req *kopf.Request[*v1.Widget]) error {
			seen.notef("%s:%s", req.Object.Name, req.Reason)
			return nil
		}
		widgets = kopf.For(&v1.Widget{}).OnCreate("create", note).OnUpdate("update", note).OnDelete("delete", note)
	})

	It("are reported, and the others are handled", func(ctx context.Context) {
		ns := newNamespace(ctx)
		create(ctx, widget(ns, "a"))
		bad := widget(ns, "bad")
		createBroken(ctx, bad)
		create(ctx, widget(ns, "z"))

		logs := &logRecorder{}
		mgr := newManager(ns, logs)
		op := kopf.New(mgr, widgets)
		Expect(mgr.Add(op)).To(Succeed())
		r := launch(mgr, logs)
		Eventually(seen.all).Should(ConsistOf("a:create", "z:create"))
		Eventually(r.log.find).WithArguments("An object does not decode into its Go type", `"name"="bad"`, timeFault).Should(HaveLen(1))
		Eventually(eventsOf(ctx, bad)).Should(ContainElement(
			"Warning Undecodable Handle: the operator does not handle the object, because it does not decode into *v1.Widget: " + timeFault))
		Eventually(func() error { return op.Readyz(&http.Request{}) }).Should(MatchError(ContainSubstring("Widget: objects that do not decode into their Go type are not handled: " + ns + "/bad")))
		x, err := op.Explain(ctx, bad)
		Expect(err).NotTo(HaveOccurred())
		Expect(x.Waits).To(ContainElement(ContainSubstring("it does not decode into *v1.Widget: correct the field " + timeFault)))
		err = mgr.GetClient().Get(ctx, client.ObjectKeyFromObject(bad), &v1.Widget{})
		Expect(err).To(MatchError(ContainSubstring("the object exists, but does not decode")))
		Expect(apierrors.IsNotFound(err)).To(BeFalse())

		By("changes of the others, in the filtered watch")
		edit(ctx, widget(ns, "a"), func(w *v1.Widget) { w.Spec.Size = 2 })
		create(ctx, widget(ns, "b"))
		Eventually(seen.all).Should(ConsistOf("a:create", "z:create", "a:update", "b:create"))
		Expect(op.CheckObjects(ctx)).To(MatchError(ContainSubstring("Widget " + ns + "/bad: " + timeFault)))

		By("the repair")
		setTime(ctx, bad, goodTime)
		Eventually(seen.all).Should(ContainElement("bad:create"))
		Eventually(func() error { return op.Readyz(&http.Request{}) }).Should(Succeed())
	}, SpecTimeout(minute))

	It("leave the scope without a call of their delete handlers if they were handled before", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a, b := widget(ns, "a"), widget(ns, "b")
		create(ctx, a)
		create(ctx, b)
		removeAtEnd(a)
		logs := &logRecorder{}
		mgr := newManager(ns, logs)
		op := kopf.New(mgr, widgets)
		Expect(mgr.Add(op)).To(Succeed())
		r := launch(mgr, logs)
		Eventually(seen.all).Should(ConsistOf("a:create", "b:create"))

		setTime(ctx, a, pythonTime)
		Eventually(func() error { return op.Readyz(&http.Request{}) }).Should(MatchError(ContainSubstring(ns + "/a")))
		edit(ctx, b, func(w *v1.Widget) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(ContainElement("b:update"))
		raw := untyped(widgetGVK, ns, "a")
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(raw), raw)).To(Succeed())
		Expect(raw.GetFinalizers()).To(HaveLen(1))
		Expect(raw.GetDeletionTimestamp()).To(BeNil())
		Consistently(seen.all).Should(ConsistOf("a:create", "b:create", "b:update"))
		Expect(r.log.find("Failed to check whether the object is deleted")).To(BeEmpty())

		By("the deletion while the object does not decode, which waits for the repair")
		Expect(k8s.Delete(ctx, raw)).To(Succeed())
		Consistently(seen.all).Should(ConsistOf("a:create", "b:create", "b:update"))
		setTime(ctx, a, goodTime)
		Eventually(seen.all).Should(ContainElement("a:delete"))
		Eventually(func() error { return k8s.Get(ctx, client.ObjectKeyFromObject(raw), raw) }).Should(MatchError(apierrors.IsNotFound, "the object is gone"))
	}, SpecTimeout(minute))

	It("are named in the start error of an operator without NewCache", func(ctx context.Context) {
		ns := newNamespace(ctx)
		create(ctx, widget(ns, "a"))
		createBroken(ctx, widget(ns, "bad"))
		mgr, err := manager.New(cp.Config, manager.Options{
			Scheme: scheme, Logger: (&logRecorder{}).Logger(), Metrics: server.Options{BindAddress: "0"},
			Controller: config.Controller{CacheSyncTimeout: 2 * time.Second},
			Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(mgr.Add(kopf.New(mgr, widgets))).To(Succeed())
		err = mgr.Start(ctx)
		Expect(err).To(MatchError(And(
			ContainSubstring("Widget: no object of the kind is handled, because the cache of the manager cannot decode "+ns+"/bad ("+timeFault+")"),
			ContainSubstring("set NewCache: kopf.NewCache in the options of the manager"))))
		Expect(seen.all()).To(BeEmpty())
		mgr.GetHTTPClient().CloseIdleConnections()
	}, SpecTimeout(minute))
})
