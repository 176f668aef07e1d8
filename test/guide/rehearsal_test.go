package guide

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

var databaseKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Database"}

// MIG-01: the test follows docs/coming-from-kopf.md with objects of a stopped Python operator, in the middle of their
// cycles. The commands print the output of the page. The operator of the page then finishes all cycles.
func TestTakingOver(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server")
	}
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(patience)
	tool := buildTool(t, g)
	k8s := installDatabases(t, g)
	for _, obj := range pythonDatabases(time.Now()) {
		g.Expect(k8s.Create(t.Context(), obj)).To(Succeed())
	}

	// Find the command of the page and its output.
	var command, shown string
	for _, s := range steps(t, "../../docs/coming-from-kopf.md") {
		switch {
		case s.Language == "sh" && strings.HasPrefix(s.Text, "kopf objects list"):
			command = strings.TrimSpace(s.Text)
		case strings.HasPrefix(s.Text, "NAMESPACE"):
			shown = s.Text
		}
	}
	seconds := regexp.MustCompile(`due in \d+s`)
	words := func(text string) []string {
		return strings.Split(regexp.MustCompile(` +`).ReplaceAllString(seconds.ReplaceAllString(strings.TrimSpace(text), "due in a while"), " "), "\n")
	}
	g.Expect(words(tool(command))).To(Equal(words(shown)))

	// The operator of the page takes over.
	var mu sync.Mutex
	var calls []string
	handler := func(id string) kopf.Handler[*unstructured.Unstructured] {
		return func(_ context.Context, req *kopf.Request[*unstructured.Unstructured]) error {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, fmt.Sprintf("%s of %s for %s, attempt %d", id, req.Object.GetName(), req.Reason, req.Attempt.Number))
			return nil
		}
	}
	called := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(slices.Values(calls))
	}
	runWithRights(t, func(ctrl.Manager) []kopf.Option {
		return []kopf.Option{migrated(handler("provision"), handler("resize"), handler("drop"))}
	})
	// The operator does not repeat successful handlers, and it keeps the attempts and delays of waiting handlers. All objects are resumed in the new process. In
	// "old", the first create handler is already finished.
	g.Eventually(called).Should(Equal([]string{
		"provision of old for resume, attempt 0",
		"provision of orders for resume, attempt 0",
		"provision of photos for update, attempt 0",
		"resize of old for create, attempt 0",
		"resize of photos for update, attempt 3",
	}))
	g.Eventually(func() string { return tool("kopf objects list databases.example.com -A") }).
		Should(ContainSubstring("3 objects; causes: 0 create, 0 update, 0 delete, 3 none, 0 unknown; 0 objects with unfinished handlers"))
}

// pythonDatabases returns the objects of the page, with a short delay.
func pythonDatabases(now time.Time) []*unstructured.Unstructured {
	stamp := func(d time.Duration) string { return now.Add(d).UTC().Format("2006-01-02T15:04:05.000000-07:00") }
	done := fmt.Sprintf(`{"started":%q,"stopped":%q,"purpose":"create","retries":1,"success":true,"failure":false}`, stamp(-time.Hour), stamp(-time.Hour))
	waiting := fmt.Sprintf(`{"started":%q,"delayed":%q,"purpose":"update","retries":3,"success":false,"failure":false,"message":"busy"}`,
		stamp(-time.Minute), stamp(8*time.Second))
	handled := func(size int) string { return fmt.Sprintf("{\"spec\":{\"size\":%d}}\n", size) }
	const prefix = "kopf.zalando.org/"
	return []*unstructured.Unstructured{
		newDatabase("old", map[string]any{prefix + "provision": done, prefix + "welcome": done}),
		newDatabase("orders", map[string]any{prefix + "last-handled-configuration": handled(10)}),
		newDatabase("photos", map[string]any{prefix + "last-handled-configuration": handled(5), prefix + "resize.spec.size": waiting}),
	}
}

func newDatabase(name string, annotations map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"namespace": "default", "name": name, "annotations": annotations, "finalizers": []any{kopf.DefaultFinalizer},
		},
		"spec": map[string]any{"size": int64(10)},
	}}
	obj.SetGroupVersionKind(databaseKind)
	return obj
}

// installDatabases creates the CRD of the pages. The cleanup removes the CRD and its objects.
func installDatabases(t *testing.T, g *WithT) client.Client {
	preserve := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "databases.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "databases", Singular: "database", Kind: "Database", ListKind: "DatabaseList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}},
			}},
		},
	}
	options := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}}
	_, err := envtest.InstallCRDs(cfg, options)
	g.Expect(err).NotTo(HaveOccurred())
	k8s, err := client.New(cfg, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { removeDatabases(g, k8s, options) })
	return k8s
}

func removeDatabases(g *WithT, k8s client.Client, options envtest.CRDInstallOptions) {
	ctx := context.Background() // the context of the test has ended
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(databaseKind)
	g.Expect(k8s.List(ctx, list)).To(Succeed())
	for _, obj := range list.Items {
		g.Expect(k8s.Patch(ctx, &obj, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
	}
	g.Expect(envtest.UninstallCRDs(cfg, options)).To(Succeed())
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	g.Eventually(func() bool {
		return apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKey{Name: "databases.example.com"}, crd))
	}).WithTimeout(patience).Should(BeTrue())
	served, err := discovery.NewDiscoveryClientForConfig(cfg)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() bool { // the next test may create the CRD again, and must not find the old kind
		all, err := served.ServerResourcesForGroupVersion(databaseKind.GroupVersion().String())
		isDatabase := func(r metav1.APIResource) bool { return r.Kind == databaseKind.Kind }
		return apierrors.IsNotFound(err) || err == nil && !slices.ContainsFunc(all.APIResources, isDatabase)
	}).WithTimeout(patience).Should(BeTrue())
}

// buildTool returns a function that runs the commands of the pages: kubectl and kopf.
func buildTool(t *testing.T, g *WithT) func(command string) string {
	file := filepath.Join(t.TempDir(), "kopf")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", file, "../../cmd/kopf").CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), "%s", out)
	terminal := terminal(t, ".", filepath.Dir(file))
	return func(command string) string {
		t.Helper()
		out, err := terminal.Type(t.Context(), command)
		if err != nil {
			t.Error(err)
		}
		return out
	}
}
