package python

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	peeringv1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

var (
	environments = flag.String("kopf", "", "the folder with the virtual environments kopf-1.44 and kopf-1.45; without it, the tests are skipped")
	quick        = flag.Bool("quick", false, "run only a part of the tests, in at most three minutes")
)

var versions = []string{"kopf-1.44", "kopf-1.45"}

// deadline limits each wait for a condition.
const deadline = 60 * time.Second

var scheme = runtime.NewScheme()

func TestMain(m *testing.M) {
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, peeringv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	if text := os.Getenv(tableEnv); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, "operator:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	code := m.Run()
	if stopServer != nil {
		if err := stopServer(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// A suite is the API server for all tests.
type suite struct {
	client.Client
	config     *rest.Config
	kubeconfig string
	gvk        schema.GroupVersionKind
}

var (
	stopServer func() error
	oneSuite   = sync.OnceValues(startSuite)
)

func startSuite() (*suite, error) {
	crds, err := oldPeeringCRDs()
	if err != nil {
		return nil, err
	}
	cp, err := controlplane.Start(controlplane.Options{CRDs: append(crds, crd(thingKind), crd(plainKind), crd(guardKind)), CRDPaths: []string{"../../config/crd"}})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kopf-python-")
	if err != nil {
		return nil, err
	}
	stopServer = func() error {
		_ = os.RemoveAll(dir) // the directory is temporary
		return cp.Stop()
	}
	s := &suite{gvk: thingKind, config: cp.Config, kubeconfig: filepath.Join(dir, "kubeconfig")}
	if err := cp.WriteKubeconfig(s.kubeconfig); err != nil {
		return nil, err
	}
	s.Client, err = client.New(cp.Config, client.Options{Scheme: scheme})
	return s, err
}

// needKopf skips the test without kopf, and returns the API server.
func needKopf(t *testing.T) *suite {
	t.Helper()
	if *environments == "" {
		t.Skip("without -kopf, which make test-kopf sets")
	}
	s, err := oneSuite()
	must(t, err)
	return s
}

// namespace creates a namespace with a generated name.
func (s *suite) namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "python-"}}
	must(t, s.Create(t.Context(), ns))
	return ns.Name
}

// get returns an object, or nil if it does not exist.
func (s *suite) get(t *testing.T, namespace, name string) thing {
	t.Helper()
	obj := s.newThing(namespace, name)
	err := s.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	return obj
}

// edit changes the size of an object.
func (s *suite) edit(t *testing.T, namespace, name string, size int) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"size":%d}}`, size)
	must(t, s.Patch(t.Context(), s.newThing(namespace, name), client.RawPatch("application/merge-patch+json", []byte(patch))))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await polls until check returns no problems, and returns the problems of the last poll if they remain until the deadline.
func await(ctx context.Context, limit time.Duration, check func() []string) (problems []string) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if problems = check(); len(problems) == 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return problems
		}
	}
}

// oldPeeringCRDs returns the kinds of peering in the older group, which both sides use as well if it is served.
func oldPeeringCRDs() (crds []*apiextensionsv1.CustomResourceDefinition, err error) {
	for _, name := range []string{"clusterkopfpeerings", "kopfpeerings"} {
		text, err := os.ReadFile("../../config/crd/kopf.dev_" + name + ".yaml")
		if err != nil {
			return nil, err
		}
		one := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(bytes.ReplaceAll(text, []byte("kopf.dev"), []byte(oldGroup)), one); err != nil {
			return nil, err
		}
		crds = append(crds, one)
	}
	return crds, nil
}

const oldGroup = "zalando.org"

func crd(gvk schema.GroupVersionKind) *apiextensionsv1.CustomResourceDefinition {
	open := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural(gvk) + "." + gvk.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: gvk.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: gvk.Kind, ListKind: gvk.Kind + "List", Plural: plural(gvk)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: gvk.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec":   {Type: "object", XPreserveUnknownFields: &open},
						"status": {Type: "object", XPreserveUnknownFields: &open},
					},
				}},
			}},
		},
	}
	if gvk != plainKind {
		crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}
	return crd
}
