package kopftest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// quickOperator writes to each new object immediately.
type quickOperator struct{ client.Client }

func (q quickOperator) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if err := q.Client.Create(ctx, obj, opts...); err != nil {
		return err
	}
	mine := obj.DeepCopyObject().(client.Object)
	mine.SetFinalizers([]string{kopf.DefaultFinalizer})
	return q.Update(ctx, mine)
}

func TestCreate_StatusWhileAnOperatorRuns(t *testing.T) {
	g, cluster := NewWithT(t), kopftest.Memory(t)
	cluster.Client = quickOperator{cluster.Client}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orders"}, Status: corev1.PodStatus{Message: "here"}}
	cluster.Create(t, pod)
	g.Expect(pod.Status.Message).To(Equal("here"))
	g.Expect(pod).To(kopftest.HaveFinalizer())
}

// The client can create namespaces even if the scheme does not contain the type.
func TestForTest_SchemeWithoutNamespaces(t *testing.T) {
	g, types := NewWithT(t), runtime.NewScheme()
	g.Expect(appsv1.AddToScheme(types)).To(Succeed())
	one := kopftest.Memory(t, kopftest.Types(types)).ForTest(t)
	g.Expect(one.Namespace).To(HavePrefix("test-"))
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}
	one.Create(t, deployment)
	g.Expect(deployment.Namespace).To(Equal(one.Namespace))
}

// Events contains only successfully created Events, without rejected Events and updates of a series.
func TestEvents_OnlyCreatedEventsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, cluster := NewWithT(t), kopftest.Memory(t, kopftest.Objects(configMap(nil)))
		operator := cluster.RunManager(t, func(mgr manager.Manager) error {
			return kopf.SetupWithManager(mgr, kopf.For(&corev1.ConfigMap{}).Timer("tell", daemons.Timer{Interval: time.Minute}, func(_ context.Context, req *cmRequest) error {
				req.Eventf("Normal", "Repeated", "Repeat", "repeated note")
				return nil
			}))
		})
		operator.InjectFaults(kopftest.Fault{Verb: "create", Resource: "events", Code: 403})
		<-time.After(2 * time.Hour)
		operator.Stop(t)
		g.Expect(len(operator.Calls())).To(BeNumerically(">", 100))
		g.Expect(operator.Events()).To(HaveEach(HaveField("Reason", "Repeated")))
		g.Expect(len(operator.Events())).To(BeNumerically("<", len(operator.Calls())))
	})
}

// The scheme of an operator often contains only its own kinds. A real API server accepts its Events all the same.
func TestEvents_SchemeWithoutEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.ConfigMap{}, &corev1.ConfigMapList{})
		metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
		g, cluster := NewWithT(t), kopftest.Memory(t, kopftest.Types(scheme))
		operator := cluster.RunManager(t, func(mgr manager.Manager) error {
			return kopf.SetupWithManager(mgr, kopf.For(&corev1.ConfigMap{}).OnCreate("tell", func(_ context.Context, req *cmRequest) error {
				req.Eventf("Normal", "Created", "Create", "a note")
				return nil
			}))
		})
		cluster.Create(t, configMap(nil))
		operator.RunUntilQuiet(t)
		g.Expect(operator.Events()).To(ContainElement(HaveField("Reason", "Created")))
	})
}

// A test can set the same manager options as main.go.
func TestRunManager_ManagerOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, other := NewWithT(t), configMap(nil)
		other.Namespace = "other"
		cluster := kopftest.Memory(t, kopftest.Objects(configMap(nil), other))
		operator := cluster.RunManager(t, func(mgr manager.Manager) error {
			return kopf.SetupWithManager(mgr, kopf.For(&corev1.ConfigMap{}).OnCreate("create", nothing))
		}, func(options *manager.Options) {
			options.Cache.ByObject = map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{"other": {}}}}
		})
		<-time.After(time.Minute)
		g.Expect(operator.Handlers(other)).To(Equal([]string{"create"}))
		g.Expect(operator.Handlers(configMap(nil))).To(BeEmpty())
	})
}
