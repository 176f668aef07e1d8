package e2e

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("Related objects (B-28)", func() {
	type W = *v1.Widget
	const trackers = 500

	// track returns a handler that records the color in a ConfigMap.
	track := func(ns string, seen *calls) kopf.Handler[W] {
		return func(ctx context.Context, req *kopf.Request[W]) error {
			shared := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shared"}}
			if err := req.Track(ctx, shared); err != nil {
				return err
			}
			seen.notef("%s %s", req.Object.Name, shared.Data["color"])
			return nil
		}
	}
	newShared := func(ns string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shared"}, Data: map[string]string{"color": "red"}}
	}

	It("call the handlers of all objects that track them, once for each change, also after a restart", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		shared := newShared(ns)
		create(ctx, shared)
		var names []string
		for i := range trackers {
			names = append(names, fmt.Sprintf("w%03d", i))
			create(ctx, widget(ns, names[i]))
		}
		sorted := func() []string {
			all := seen.all()
			slices.Sort(all)
			return all
		}
		withColor := func(color string) (want []string) {
			for _, name := range names {
				want = append(want, name+" "+color)
			}
			return want
		}
		change := func(color string) {
			seen.clear()
			began := time.Now()
			edit(ctx, shared, func(m *corev1.ConfigMap) { m.Data = map[string]string{"color": color} })
			Eventually(sorted).Should(Equal(withColor(color)))
			AddReportEntry("related", fmt.Sprintf("%d objects were handled %s after the change of the object that they track", trackers, time.Since(began)))
			Consistently(sorted, quietTime).Should(HaveLen(trackers))
		}
		op := start(ns, options(kopf.For(&v1.Widget{}).OnReconcile("track", track(ns, seen))))
		Eventually(sorted).Should(Equal(withColor("red")))
		change("blue")
		op.stop()
		seen.clear()
		edit(ctx, shared, func(m *corev1.ConfigMap) { m.Data = map[string]string{"color": "green"} })
		start(ns, options(kopf.For(&v1.Widget{}).OnReconcile("track", track(ns, seen))))
		Eventually(sorted).Should(Equal(withColor("green")))
		change("yellow")
	}, SpecTimeout(3*minute))

	It("that a map function returns are handled, and requests for other namespaces are ignored", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		create(ctx, widget(ns, "one"))
		op := start(ns, options(kopf.For(&v1.Widget{}).OnReconcile("sync", func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("%s", req.Object.Name)
			return nil
		}).WatchesMetadata(&corev1.ConfigMap{}, func(_ context.Context, obj client.Object) []reconcile.Request {
			one := client.ObjectKey{Namespace: ns, Name: "one"}
			return []reconcile.Request{{NamespacedName: one}, {NamespacedName: client.ObjectKey{Namespace: "kube-system", Name: "one"}}}
		})))
		Eventually(seen.all).Should(HaveLen(1))
		create(ctx, newShared(ns))
		Eventually(seen.all).Should(HaveLen(2))
		Consistently(seen.all, quietTime).Should(HaveLen(2))
		Expect(op.log.find("Reconciler error")).To(BeEmpty())
	}, SpecTimeout(minute))

	It("need permissions; the error of Track names them, and the handler continues when they are granted", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "operator"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1.GroupVersion.Group}, Resources: []string{"widgets"}, Verbs: []string{"get", "list", "watch", "patch"}},
		}}
		grant(ctx, ns, role)
		create(ctx, newShared(ns))
		create(ctx, widget(ns, "one"))
		op := start(ns, options(kopf.For(&v1.Widget{}).OnReconcile("track", track(ns, seen), kopf.Backoff(time.Second))), func(config *rest.Config) {
			config.Impersonate = rest.ImpersonationConfig{UserName: ns, Groups: []string{"system:authenticated"}}
		})
		Eventually(func() []string {
			return op.log.find("Handler failed and will be retried", "resources=configmaps,verbs=list;watch")
		}, 30*time.Second).ShouldNot(BeEmpty())
		edit(ctx, role, func(r *rbacv1.Role) {
			r.Rules = append(r.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}})
		})
		Eventually(seen.all, 90*time.Second).Should(ContainElement("one red"))
	}, SpecTimeout(3*minute))
})
