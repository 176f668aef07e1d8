package controller

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	shopv1 "github.com/kopf-runtime/kopf-runtime/examples/kubebuilder/api/v1"
)

var (
	k8sClient client.Client
	warehouse *Warehouse
)

func TestControllers(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "Controllers")
}

// Handlers are called by a manager, so there is one for the whole suite. A reconciler may be called by a test directly, as
// that of invoices is.
var _ = BeforeSuite(func() {
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
		BinaryAssetsDirectory: binaries(),
	}
	config, err := env.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(env.Stop)

	scheme := runtime.NewScheme()
	Expect(shopv1.AddToScheme(scheme)).To(Succeed())
	k8sClient, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	Expect(err).NotTo(HaveOccurred())
	warehouse = NewWarehouse(map[string]int32{"book": 10, "lamp": 2, "pen": 5})
	Expect((&OrderHandlers{Warehouse: warehouse}).SetupWithManager(mgr)).To(Succeed())
	Expect((&ParcelReconciler{Client: mgr.GetClient(), Scheme: scheme}).SetupWithManager(mgr)).To(Succeed())

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	DeferCleanup(func() {
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	})
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
})

// binaries is where etcd and kube-apiserver are: what KUBEBUILDER_ASSETS says is taken by envtest itself; otherwise what
// "make setup-envtest" has loaded, or what "make controlplane" has built at the top of this repository.
func binaries() string {
	if os.Getenv("KUBEBUILDER_ASSETS") != "" {
		return ""
	}
	for _, pattern := range []string{
		filepath.Join("..", "..", "bin", "k8s", "*", "etcd"),
		filepath.Join("..", "..", "..", "..", "bin", "controlplane", "etcd"),
	} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return filepath.Dir(found[0])
		}
	}
	return ""
}
