package peering

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	v1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

const crds = "../../config/crd"

// specTimeout is the timeout of specs, for busy machines.
const specTimeout = 4 * time.Minute

var (
	cp     *controlplane.ControlPlane
	k8s    client.Client
	scheme = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	must(clientgoscheme.AddToScheme(scheme))
	must(v1.AddToScheme(scheme))
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

func TestPeering(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs a control plane")
	}
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(10 * time.Millisecond)
	SetDefaultConsistentlyDuration(500 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RegisterFailHandler(Fail)
	RunSpecs(t, "Peering")
}

var _ = BeforeSuite(func() {
	var err error
	cp, err = controlplane.Start(controlplane.Options{
		CRDPaths: []string{crds}, CRDs: []*apiextensionsv1.CustomResourceDefinition{legacy("Cluster"), legacy("Namespaced")}, Audit: true,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(cp.Stop)
	httpClient, err := rest.HTTPClientFor(cp.Config)
	Expect(err).NotTo(HaveOccurred())
	k8s, err = client.New(cp.Config, client.Options{Scheme: scheme, HTTPClient: httpClient})
	Expect(err).NotTo(HaveOccurred())

	known := goleak.IgnoreCurrent()
	// controller-runtime does not end these goroutines of informers that are stopped before they sync.
	unsynced := goleak.IgnoreTopFunction("sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformer.func1")
	unsyncedHandlers := goleak.IgnoreTopFunction("sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformerHandlerRegistration.func1")
	DeferCleanup(func() {
		Eventually(func() error {
			utilnet.CloseIdleConnectionsFor(httpClient.Transport) // operators with the same configuration share its connections
			return goleak.Find(known, unsynced, unsyncedHandlers)
		}).WithTimeout(2*time.Minute).Should(Succeed(), "goroutines have leaked")
	})
})

// legacy returns the CRD of a zalando.org kind with a status subresource.
func legacy(scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
	kind, plural := "ClusterKopfPeering", v1.ClusterPlural
	if scope == "Namespaced" {
		kind, plural = "KopfPeering", v1.NamespacedPlural
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + v1.LegacyGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: v1.LegacyGroup, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: v1.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"status": {Type: "object", XPreserveUnknownFields: new(true)},
					},
				}},
			}},
		},
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
