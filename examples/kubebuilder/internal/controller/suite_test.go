package controller

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	shopv1 "github.com/kopf-runtime/kopf-runtime/examples/kubebuilder/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

var (
	k8sClient client.Client
	cluster   *kopftest.Cluster
	warehouse *Warehouse
)

func TestControllers(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "Controllers")
}

// One manager calls the handlers in the whole suite. The test of invoices calls its reconciler directly. The manager and
// the API server end with the suite, so AfterSuite is unnecessary.
var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	Expect(shopv1.AddToScheme(scheme.Scheme)).To(Succeed())
	// +kubebuilder:scaffold:scheme
	cluster = kopftest.Environment(GinkgoTB(), kopftest.Types(scheme.Scheme),
		kopftest.CRDs(filepath.Join("..", "..", "config", "crd", "bases")))
	k8sClient = cluster.Client

	warehouse = NewWarehouse(map[string]int32{"book": 10, "lamp": 2, "pen": 5})
	restricted := cluster.WithRights(GinkgoTB(), roleFile) // the role of the operator is sufficient
	restricted.RunManager(GinkgoTB(), func(mgr ctrl.Manager) error {
		return errors.Join(
			(&OrderHandlers{Warehouse: warehouse}).SetupWithManager(mgr, InvoiceNeeds()),
			(&ParcelReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr),
		)
	})
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
})
