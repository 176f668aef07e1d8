package kopftest_test

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// A test can set up a plain reconciler twice, although controller-runtime rejects a second controller of the same name.
func TestRunManager_CanBeRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(chan string, 10)
		setup := func(mgr manager.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
				func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
					seen <- req.Name
					return reconcile.Result{}, nil
				}))
		}
		cluster := kopftest.Memory(t, kopftest.Objects(configMap(nil)))
		for range 2 {
			operator := cluster.RunManager(t, setup)
			NewWithT(t).Expect(<-seen).To(Equal("orders"))
			NewWithT(t).Expect(failureOf(t, operator.RunUntilQuiet)).To(ContainSubstring("has no handlers"))
			operator.Stop(t)
		}
	})
}

func TestMemory_UnknownKind(t *testing.T) {
	unknown := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Database", "metadata": map[string]any{"name": "orders"},
	}}
	said := failureOf(t, func(t testing.TB) { kopftest.Memory(t, kopftest.Objects(unknown)) })
	NewWithT(t).Expect(said).To(ContainSubstring("set its CRD with CRDs"))
}
