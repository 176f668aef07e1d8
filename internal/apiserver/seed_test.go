package apiserver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
)

var (
	example = schema.GroupVersion{Group: "example.com", Version: "v1"}
	widget  = apiserver.Resource{GroupVersion: example, Kind: "Widget", Plural: "widgets", HasStatus: true}
	cog     = apiserver.Resource{GroupVersion: example, Kind: "Cog", Plural: "cogs", ClusterScoped: true}
)

func object(kind string, meta map[string]any) map[string]any {
	return map[string]any{"apiVersion": "example.com/v1", "kind": kind, "metadata": meta}
}

func TestAdd_KeepsFields(t *testing.T) {
	s := apiserver.New(widget, cog)
	given := object("Widget", map[string]any{
		"namespace": "ns", "name": "a", "uid": "mine", "resourceVersion": "40", "generation": 7, "finalizers": []string{"example.com/x"},
		"creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2002-01-01T00:00:00Z", "annotations": map[string]string{"x": "y"},
	})
	given["status"] = map[string]any{"size": 1}
	must(t, s.Add(given, object("Cog", map[string]any{"name": "c"})))
	want := object("Widget", map[string]any{
		"namespace": "ns", "name": "a", "uid": "mine", "resourceVersion": "40", "generation": int64(7), "finalizers": []any{"example.com/x"},
		"creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2002-01-01T00:00:00Z", "deletionGracePeriodSeconds": int64(0),
		"annotations": map[string]any{"x": "y"},
	})
	want["status"] = map[string]any{"size": int64(1)}
	got := s.Objects(example.WithKind("Widget"))
	if diff := cmp.Diff([]map[string]any{want}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got[0]["metadata"].(map[string]any)["name"] = "changed"
	if s.Objects(example.WithKind("Widget"))[0]["metadata"].(map[string]any)["name"] != "a" {
		t.Error("Objects returned the stored objects, want copies")
	}
	cog := unstructured.Unstructured{Object: s.Objects(example.WithKind("Cog"))[0]}
	if cog.GetUID() == "" || cog.GetResourceVersion() != "41" || cog.GetGeneration() != 1 || time.Since(cog.GetCreationTimestamp().Time) > time.Minute {
		t.Errorf("object after Add = %v, want a uid, the resourceVersion 41, the generation 1 and the current time", cog)
	}
	if all := s.All(); len(all) != 2 || all[0]["kind"] != "Cog" {
		t.Errorf("All returned %v, want the Cog and one other object", all)
	}
}

// If an object is added with a deletion timestamp, the removal of its last finalizer deletes the object.
func TestAdd_ObjectUnderDeletion(t *testing.T) {
	s := apiserver.New(apiserver.FromScheme(clientgoscheme.Scheme)...)
	must(t, s.Add(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"namespace": "ns", "name": "a", "finalizers": []any{"example.com/x"}, "deletionTimestamp": "2002-01-01T00:00:00Z",
	}}))
	must(t, newClient(t, s).Patch(t.Context(), configMap("a"), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	if left := s.All(); len(left) != 0 {
		t.Errorf("remaining objects: %v, want none", left)
	}
}

func TestAdd_Rejects(t *testing.T) {
	named := func(namespace, name string) map[string]any {
		return map[string]any{"namespace": namespace, "name": name}
	}
	for want, objs := range map[string][]map[string]any{
		`unknown kind "Gadget" of version "example.com/v1"`: {object("Gadget", named("ns", "a"))},
		"a Widget has no name":                              {object("Widget", map[string]any{"namespace": "ns"})},
		"Widget a has no namespace":                         {object("Widget", map[string]any{"name": "a"})},
		"Cog ns/a has a namespace":                          {object("Cog", named("ns", "a"))},
		"Widget ns/old exists already":                      {object("Widget", named("ns", "old"))},
		"Widget ns/twice exists already":                    {object("Widget", named("ns", "twice")), object("Widget", named("ns", "twice"))},
		`the resourceVersion "x" of Widget ns/a`:            {object("Widget", map[string]any{"namespace": "ns", "name": "a", "resourceVersion": "x"})},
		"metadata: ":                                        {object("Widget", map[string]any{"namespace": "ns", "name": "a", "labels": map[string]any{"x": 1}})},
		"encode the object: ":                               {object("Widget", map[string]any{"name": make(chan int)})},
		"a Widget has no name\napiserver: Widget a has":     {object("Widget", nil), object("Widget", map[string]any{"name": "a"})},
	} {
		s := apiserver.New(widget, cog)
		must(t, s.Add(object("Widget", named("ns", "old"))))
		err := s.Add(append(objs, object("Widget", named("ns", "good")))...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error of Add(%v) = %v, want %q", objs, err, want)
		}
		if len(s.All()) != 1 {
			t.Errorf("Add returned an error but added objects: %v", err)
		}
	}
}

func TestFromScheme(t *testing.T) {
	got := map[string]apiserver.Resource{}
	for _, r := range apiserver.FromScheme(clientgoscheme.Scheme) {
		got[r.GroupVersion.String()+" "+r.Kind] = r
	}
	for id, want := range map[string]apiserver.Resource{
		"v1 Endpoints":  {GroupVersion: corev1.SchemeGroupVersion, Kind: "Endpoints", Plural: "endpoints"},
		"v1 Node":       {GroupVersion: corev1.SchemeGroupVersion, Kind: "Node", Plural: "nodes", HasStatus: true, ClusterScoped: true, ShortNames: []string{"no"}},
		"v1 Pod":        {GroupVersion: corev1.SchemeGroupVersion, Kind: "Pod", Plural: "pods", HasStatus: true, ShortNames: []string{"po"}},
		"apps/v1 Scale": {}, "v1 PodList": {}, "v1 Status": {}, "meta.k8s.io/v1 WatchEvent": {}, "v1 ListOptions": {},
		"authorization.k8s.io/v1 SubjectAccessReview": {},
		"networking.k8s.io/v1 NetworkPolicy": {
			GroupVersion: schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}, Kind: "NetworkPolicy", Plural: "networkpolicies",
		},
	} {
		if diff := cmp.Diff(want, got[id], cmp.AllowUnexported(apiserver.Resource{})); diff != "" {
			t.Errorf("resource of %s differs (-want +got):\n%s", id, diff)
		}
	}
}

func TestFromCRDs(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.ClusterScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Ox", Plural: "oxen"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
			{Name: "v1", Served: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}},
			{Name: "v2", Served: true}, {Name: "v0"},
		},
	}}
	want := []apiserver.Resource{
		{GroupVersion: example, Kind: "Ox", Plural: "oxen", HasStatus: true, ClusterScoped: true},
		{GroupVersion: schema.GroupVersion{Group: "example.com", Version: "v2"}, Kind: "Ox", Plural: "oxen", ClusterScoped: true},
	}
	if diff := cmp.Diff(want, apiserver.FromCRDs(crd), cmp.AllowUnexported(apiserver.Resource{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A later resource replaces an earlier one: the exact names of a CRD replace the derived names.
	s := apiserver.New(append([]apiserver.Resource{{GroupVersion: example, Kind: "Ox", Plural: "oxes"}}, want...)...)
	must(t, s.Add(object("Ox", map[string]any{"name": "a"})))
}
