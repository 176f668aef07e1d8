package kopftest_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// admissionHandlers returns handlers that deny objects without a color and add a frame to other objects.
func admissionHandlers() []kopf.Option {
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

func newPicture(name, color string) *corev1.ConfigMap {
	obj := &corev1.ConfigMap{Data: map[string]string{"color": color}}
	obj.Name = name
	return obj
}

// A real server calls the admission handlers of a running operator, even after a restart.
func TestEnvironment_CallsAdmissionHandlers(t *testing.T) {
	g, cluster := NewWithT(t), needServer(t)
	g.SetDefaultEventuallyTimeout(20 * time.Second)
	asked := func() error { return tryCreate(t, cluster, newPicture("pale", "")) }
	elsewhere := newPicture("elsewhere", "")
	g.Expect(asked()).To(Succeed())

	operator := cluster.Run(t, admissionHandlers()...)
	operator.RunUntilQuiet(t)
	g.Eventually(asked).Should(MatchError(ContainSubstring("it has no color"))) // registrations take time on a busy machine
	obj := newPicture("orders", "red")
	g.Eventually(func() map[string]string {
		dry := obj.DeepCopy()
		g.Expect(tryCreate(t, cluster, dry)).To(Succeed())
		return dry.Data
	}).Should(HaveKeyWithValue("frame", "gold"))
	cluster.Create(t, obj)
	operator.RunUntilQuiet(t)
	g.Expect(operator.Handlers(obj)).To(Equal([]string{"paint"}))
	g.Expect(operator.Writes()).To(And(Not(BeEmpty()), HaveEach(HaveField("Resource", "configmaps"))), "want no writes of webhook configurations")
	elsewhere.Namespace = "default"
	g.Expect(cluster.Client.Create(t.Context(), elsewhere, client.DryRunAll)).To(Succeed(), "want no calls for other namespaces")

	operator.Crash(t)
	g.Expect(asked()).NotTo(Succeed(), "want an error, because no operator runs")
	another := cluster.Run(t, admissionHandlers()...)
	g.Eventually(asked).Should(MatchError(ContainSubstring("it has no color")))
	beside := cluster.Run(t, noSecrets())
	g.Eventually(func() error { return tryCreate(t, cluster, &corev1.Secret{}) }).Should(MatchError(ContainSubstring("no secrets")))
	beside.Stop(t)
	another.Stop(t)
	g.Eventually(asked).Should(Succeed())
}

// A cluster in memory does not call admission handlers. It only checks their declarations.
func TestMemory_DoesNotCallAdmissionHandlers(t *testing.T) {
	g := NewWithT(t)
	report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{newPicture("orders", "")}}, admissionHandlers()...)
	g.Expect(report.Handlers()).To(Equal([]string{"paint"}))
	g.Expect(report.Writes).To(And(Not(BeEmpty()), HaveEach(HaveField("Resource", "configmaps"))))

	memory := kopftest.Memory(t)
	operator := memory.Run(t, admissionHandlers()...)
	obj := newPicture("orders", "")
	memory.Create(t, obj)
	operator.RunUntilQuiet(t)
	g.Expect(operator.Handlers(obj)).To(Equal([]string{"paint"}))

	for mistake, options := range map[string][]kopf.Option{
		"judge":        {kopf.For(&corev1.ConfigMap{}).Validate("judge", nil)},
		"RemoveOnExit": {admissionHandlers()[0], kopf.WithWebhooks(webhooks.Options{Exit: webhooks.RemoveOnExit})},
	} {
		g.Expect(failureOf(t, func(t testing.TB) { memory.Run(t, options...) })).To(ContainSubstring(mistake), "want an error without an admission request")
	}
}

// The server calls all operators of a manager. After the test, the webhook configurations of a crashed operator are
// removed. The scheme contains only the handled kind.
func TestEnvironment_AdmissionOfSeveralOperators(t *testing.T) {
	cluster := needServer(t)
	cluster.Scheme = runtime.NewScheme()
	NewWithT(t).Expect(corev1.AddToScheme(cluster.Scheme)).To(Succeed())
	direct, err := client.New(cluster.Config, client.Options{Scheme: cluster.Scheme})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	cluster.Client = direct
	t.Run("one manager", func(t *testing.T) {
		operator := cluster.RunManager(t, func(mgr manager.Manager) error {
			return errors.Join(kopf.SetupWithManager(mgr, admissionHandlers()...), kopf.SetupWithManager(mgr, noSecrets()))
		})
		g := NewWithT(t)
		g.SetDefaultEventuallyTimeout(20 * time.Second)
		g.Eventually(func() error { return tryCreate(t, cluster, newPicture("pale", "")) }).Should(MatchError(ContainSubstring("it has no color")))
		g.Eventually(func() error { return tryCreate(t, cluster, &corev1.Secret{}) }).Should(MatchError(ContainSubstring("no secrets")))
		operator.RunUntilQuiet(t)
		operator.Crash(t)
		g.Expect(tryCreate(t, cluster, &corev1.Secret{})).NotTo(Succeed(), "want an error, because no operator runs")
	})
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(20 * time.Second)
	g.Eventually(func() error { return tryCreate(t, cluster, &corev1.Secret{}) }).Should(Succeed())
	g.Eventually(func() error { return tryCreate(t, cluster, newPicture("pale", "")) }).Should(Succeed())
}

// An operator can have WithWebhooks without admission handlers.
func TestRun_WebhookOptionsWithoutHandlers(t *testing.T) {
	cluster := needServer(t)
	cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnCreate("paint", nothing), admissionHandlers()[1]).RunUntilQuiet(t)
}

func noSecrets() kopf.Option {
	return kopf.For(&corev1.Secret{}).Validate("secrecy", func(context.Context, *webhooks.Request[*corev1.Secret]) error {
		return webhooks.Deny(http.StatusForbidden, metav1.StatusReasonForbidden, "no secrets")
	})
}

// tryCreate creates an object with a dry run.
func tryCreate(t *testing.T, cluster *kopftest.Cluster, obj client.Object) error {
	t.Helper()
	obj.SetName("tried")
	obj.SetNamespace(cluster.Namespace)
	return cluster.Client.Create(t.Context(), obj, client.DryRunAll)
}

// RunUntilQuiet returns when the operator fails to start. It does not wait for its timeout.
func TestRunUntilQuiet_FailsWhenTheOperatorEnds(t *testing.T) {
	g, cluster := NewWithT(t), needServer(t)
	said := make(chan string)
	go func() {
		said <- failureOf(t, func(t testing.TB) {
			cluster.RunManager(t, func(mgr manager.Manager) error {
				return kopf.SetupWithManager(mgr, admissionHandlers()[0])
			}, func(o *manager.Options) {
				o.WebhookServer = webhook.NewServer(webhook.Options{Port: 1, CertDir: t.TempDir()})
			}).RunUntilQuiet(t)
		})
	}()
	g.Eventually(said).WithTimeout(20 * time.Second).Should(Receive(ContainSubstring("tls.crt"))) // less than the timeout of RunUntilQuiet
}
