package garbagecollection

import (
	"errors"
	"net/http"
	"strings"
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
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

const minute = time.Minute

// awhile is long enough for the controllers to react to a write and for the operator to react to the controllers.
const awhile = 2 * time.Second

var (
	cp     *controlplane.ControlPlane
	k8s    client.Client // client without a cache
	scheme = runtime.NewScheme()

	httpClient *http.Client // the HTTP client of k8s
)

func TestGarbageCollection(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs a control plane")
	}
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	var err error
	cp, err = controlplane.Start(controlplane.Options{CRDs: crds(), Audit: true, Controllers: true})
	if errors.Is(err, controlplane.ErrNoControllers) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	if httpClient, err = rest.HTTPClientFor(cp.Config); err != nil {
		t.Fatal(err)
	}
	if k8s, err = client.New(cp.Config, client.Options{Scheme: scheme, HTTPClient: httpClient}); err != nil {
		t.Fatal(err)
	}
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(awhile)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RegisterFailHandler(Fail)
	RunSpecs(t, "Collection")
}

var _ = BeforeSuite(func() {
	known := goleak.IgnoreCurrent()
	DeferCleanup(func() {
		Eventually(func() error {
			utilnet.CloseIdleConnectionsFor(httpClient.Transport) // operators with the same configuration share its connections
			return goleak.Find(known)
		}).Should(Succeed(), "goroutines have leaked")
	})
})

// Add the log of the controllers to a failure.
var _ = ReportAfterEach(func(report SpecReport) {
	if !report.Failed() {
		return
	}
	text, err := cp.Log("kube-controller-manager")
	if err != nil {
		text = err.Error()
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	AddReportEntry("end of the log of kube-controller-manager", strings.Join(lines[max(0, len(lines)-40):], "\n"))
})
