package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
)

// compareKinds compares the plurals, scopes and statuses that are derived from Go types with those of the real server.
func compareKinds(t *testing.T, real *rest.Config) {
	t.Helper()
	memory := &rest.Config{Host: "http://in-memory", Transport: apiserver.New(apiserver.FromScheme(clientgoscheme.Scheme)...)}
	want, got := kinds(t, real), kinds(t, memory)
	compared := 0
	for id, w := range want {
		plural, subresource, _ := strings.Cut(id.name, "/")
		if _, typed := got[resource{id.version, plural}]; !typed || subresource != "" && subresource != "status" {
			continue
		}
		compared++
		g := got[id]
		if subresource != "" {
			w.SingularName = "" // servers set this field only for some kinds, and clients do not need it
		}
		if diff := cmp.Diff([]any{w.Kind, w.Namespaced, w.SingularName}, []any{g.Kind, g.Namespaced, g.SingularName}); diff != "" {
			t.Errorf("%s: from real (-) to memory (+):\n%s", id, diff)
		}
	}
	for id, g := range got {
		for other, w := range want {
			if _, same := want[id]; !same && id.version == other.version && g.Kind == w.Kind && !strings.Contains(id.name+other.name, "/") {
				t.Errorf("%s is missing in memory; the real server has %q", id, other.name)
			}
		}
	}
	t.Logf("compared %d built-in resources", compared)
	if compared < 50 {
		t.Errorf("compared resources = %d, want at least 50", compared)
	}
}

// A resource is identified by its version and its plural, with /status for a subresource.
type resource struct{ version, name string }

// kinds returns the resources and statuses of a server by version and plural.
func kinds(t *testing.T, config *rest.Config) map[resource]metav1.APIResource {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	out := map[resource]metav1.APIResource{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			out[resource{list.GroupVersion, r.Name}] = r
		}
	}
	return out
}
