package e2e

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	peeringv1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var (
	cp     *controlplane.ControlPlane
	k8s    client.Client // client without a cache
	scheme = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	must(clientgoscheme.AddToScheme(scheme))
	must(v1.AddToScheme(scheme))
	must(peeringv1.AddToScheme(scheme))
	if os.Getenv(childEnv) != "" {
		os.Exit(runChild()) // the child process of a spec
	}
	os.Exit(m.Run())
}

func TestEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs a control plane")
	}
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(700 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RegisterFailHandler(Fail)
	RunSpecs(t, "End to end")
}

var _ = BeforeSuite(func() {
	var err error
	cp, err = controlplane.Start(controlplane.Options{CRDs: crds(), CRDPaths: []string{"../../config/crd", "../sharder/crd"}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(cp.Stop)
	httpClient, err := rest.HTTPClientFor(cp.Config)
	Expect(err).NotTo(HaveOccurred())
	k8s, err = client.New(cp.Config, client.Options{Scheme: scheme, HTTPClient: httpClient})
	Expect(err).NotTo(HaveOccurred())

	known := goleak.IgnoreCurrent()
	// controller-runtime does not end these goroutines of informers that never sync, for example because of missing permissions or an early stop.
	unsynced := goleak.IgnoreTopFunction("sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformer.func1")
	unsyncedHandlers := goleak.IgnoreTopFunction("sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformerHandlerRegistration.func1")
	DeferCleanup(func() {
		Eventually(func() error {
			utilnet.CloseIdleConnectionsFor(httpClient.Transport) // closes connections of the last requests
			return goleak.Find(known, unsynced, unsyncedHandlers)
		}).WithTimeout(idleConnTimeout+30*time.Second).Should(Succeed(), "goroutines have leaked")
	})
})

// idleConnTimeout is that of client-go's transports. An operator closes its idle connections when it stops, but a late request opens another one.
const idleConnTimeout = 90 * time.Second

func must(err error) {
	if err != nil {
		panic(err)
	}
}

const (
	minute      = time.Minute
	millisecond = time.Millisecond
)
