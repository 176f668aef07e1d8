package conditions_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

var (
	k8s    client.WithWatch // client that counts its write requests
	writes atomic.Int64
	config *rest.Config // configuration for an operator
)

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard()) // the tests ignore warnings of the server
	os.Exit(withControlPlane(m.Run))
}

func withControlPlane(run func() int) int {
	if testing.Short() {
		return run()
	}
	cp, err := controlplane.Start(controlplane.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{
		crd("Widget", true, nil),
		crd("Gadget", false, nil),
		crd("Topic", true, pruned),
	}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = cp.Stop() }()
	config = cp.Config
	counted := rest.CopyConfig(config)
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper { return counter{next} })
	if k8s, err = client.NewWithWatch(counted, client.Options{}); err != nil {
		fmt.Println(err)
		return 1
	}
	return run()
}

// counter is a transport that counts write requests, including failed ones.
type counter struct{ next http.RoundTripper }

func (c counter) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		writes.Add(1)
	}
	return c.next.RoundTrip(request)
}

// countWrites returns the number of write requests during a call.
func countWrites(call func()) int {
	before := writes.Load()
	call()
	return int(writes.Load() - before)
}

// pruned is the schema of conditions in Strimzi. It has the limits of the API, and no observedGeneration.
var pruned = &apiextensionsv1.JSONSchemaProps{
	Type: "array",
	Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object", Required: []string{"type", "status", "lastTransitionTime", "reason", "message"},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"type":               {Type: "string", MaxLength: new(int64(316))},
			"status":             {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"True"`)}, {Raw: []byte(`"False"`)}, {Raw: []byte(`"Unknown"`)}}},
			"reason":             {Type: "string", MinLength: new(int64(1)), MaxLength: new(int64(1024)), Pattern: reasonOfTheAPI.String()},
			"message":            {Type: "string", MaxLength: new(int64(32768))},
			"lastTransitionTime": {Type: "string", Format: "date-time"},
		},
	}},
}

func crd(kind string, subresource bool, conditions *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.CustomResourceDefinition {
	anything := apiextensionsv1.JSONSchemaProps{Type: "object", Nullable: true, XPreserveUnknownFields: new(true)}
	status := anything
	if conditions != nil {
		status = apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"conditions": *conditions}}
	}
	version := apiextensionsv1.CustomResourceDefinitionVersion{
		Name: "v1", Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": anything, "status": status},
		}},
	}
	if subresource {
		version.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}
	plural := strings.ToLower(kind) + "s"
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".conditions.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "conditions.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version},
		},
	}
}

// onServer creates an object of a custom kind.
func onServer(t *testing.T, kind string) *unstructured.Unstructured {
	t.Helper()
	obj := parse(`{"apiVersion": "conditions.example.com/v1", "kind": "` + kind + `",
		"metadata": {"generateName": "x-", "namespace": "default"}, "spec": {"size": 1}}`)
	create(t, obj)
	return obj
}

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	must(t, k8s.Create(t.Context(), obj))
}

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "x-", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, AutomountServiceAccountToken: new(false)},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
