package kopftest_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// judging lets only those through that have a color, and a frame is put around them. Served as in production, it needs a pod.
func judging() []kopf.Option {
	return []kopf.Option{
		kopf.For(&corev1.ConfigMap{}).
			Mutate("frame", func(_ context.Context, req *webhooks.Request[*corev1.ConfigMap]) error {
				if req.Object.Data != nil {
					req.Object.Data["frame"] = "gold"
				}
				return nil
			}).
			Validate("judge", func(_ context.Context, req *webhooks.Request[*corev1.ConfigMap]) error {
				if req.Object.Data["color"] == "" {
					return webhooks.Deny(http.StatusForbidden, metav1.StatusReasonForbidden, "it has no color")
				}
				return nil
			}).
			OnCreate("paint", nothing),
		kopf.WithWebhooks(webhooks.Options{
			Name: "pictures.example.com", Configurations: webhooks.Managed, Certificates: webhooks.SelfManaged{},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "pictures"}},
		}),
	}
}

func picture(name, color string) *corev1.ConfigMap {
	obj := &corev1.ConfigMap{Data: map[string]string{"color": color}}
	obj.Name = name
	return obj
}

// A real server calls admission handlers, of an operator that was started again, too; where it has ended, nobody is asked any more.
func TestAdmissionOnARealServer(t *testing.T) {
	g, cluster := NewWithT(t), needServer(t)
	g.SetDefaultEventuallyTimeout(20 * time.Second)
	asked := func() error {
		obj := picture("pale", "")
		obj.Namespace = cluster.Namespace
		return cluster.Client.Create(t.Context(), obj, client.DryRunAll)
	}
	elsewhere := picture("elsewhere", "")
	g.Expect(asked()).To(Succeed())

	operator := cluster.Run(t, judging()...)
	g.Eventually(asked).Should(MatchError(ContainSubstring("it has no color")))
	obj := picture("orders", "red")
	g.Eventually(func() map[string]string {
		dry := obj.DeepCopy()
		dry.Namespace = cluster.Namespace
		g.Expect(cluster.Client.Create(t.Context(), dry, client.DryRunAll)).To(Succeed())
		return dry.Data
	}).Should(HaveKeyWithValue("frame", "gold"))
	cluster.Create(t, obj)
	operator.RunUntilQuiet(t)
	g.Expect(operator.Handlers(obj)).To(Equal([]string{"paint"}))
	for _, write := range operator.Writes() {
		g.Expect(write.Resource).To(Equal("configmaps"), "what is written for others to be called is not shown")
	}
	elsewhere.Namespace = "default"
	g.Expect(cluster.Client.Create(t.Context(), elsewhere, client.DryRunAll)).To(Succeed(), "other tests are let alone")

	operator.Crash(t)
	g.Expect(asked()).NotTo(Succeed(), "nobody answers")
	another := cluster.Run(t, judging()...)
	g.Eventually(asked).Should(MatchError(ContainSubstring("it has no color")))
	beside := cluster.Run(t, kopf.For(&corev1.Secret{}).
		Validate("judge", func(context.Context, *webhooks.Request[*corev1.Secret]) error {
			return webhooks.Deny(http.StatusForbidden, metav1.StatusReasonForbidden, "no secrets")
		}))
	g.Eventually(func() error {
		obj := &corev1.Secret{}
		obj.Name, obj.Namespace = "one", cluster.Namespace
		return cluster.Client.Create(t.Context(), obj, client.DryRunAll)
	}).Should(MatchError(ContainSubstring("no secrets")))
	beside.Stop(t)
	another.Stop(t)
	g.Eventually(asked).Should(Succeed())
}

// In memory nobody calls admission handlers, and nothing is needed for them; mistakes are told.
func TestAdmissionInMemory(t *testing.T) {
	g := NewWithT(t)
	report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{picture("orders", "")}}, judging()...)
	g.Expect(report.Handlers()).To(Equal([]string{"paint"}))
	for _, write := range report.Writes {
		g.Expect(write.Resource).To(Equal("configmaps"))
	}

	memory := kopftest.Memory(t)
	operator := memory.Run(t, judging()...)
	obj := picture("orders", "")
	memory.Create(t, obj)
	operator.RunUntilQuiet(t)
	g.Expect(operator.Handlers(obj)).To(Equal([]string{"paint"}))

	twice := kopf.For(&corev1.ConfigMap{}).Validate("judge", nil)
	g.Expect(failure(t, func(t testing.TB) { memory.Run(t, twice) })).To(ContainSubstring("judge"))
}

// An operator that cannot start is not waited for until the test runs out of time.
func TestNoCertificate(t *testing.T) {
	g, cluster := NewWithT(t), needServer(t)
	said := failure(t, func(t testing.TB) {
		operator := cluster.RunManager(t, func(mgr manager.Manager) error {
			return kopf.SetupWithManager(mgr, judging()[0])
		}, func(o *manager.Options) {
			o.WebhookServer = webhook.NewServer(webhook.Options{Port: 1, CertDir: t.TempDir()})
		})
		operator.RunUntilQuiet(t)
	})
	g.Expect(said).To(ContainSubstring("tls.crt"))
}
