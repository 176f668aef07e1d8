package watching_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
)

// discovered is an API server with three groups, of which one does not answer.
type discovered struct {
	discovery.ServerResourcesInterfaceWithContext
	err error
}

func (d discovered) ServerGroupsAndResourcesWithContext(context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	group := func(name, preferred string) *metav1.APIGroup {
		return &metav1.APIGroup{Name: name, PreferredVersion: metav1.GroupVersionForDiscovery{Version: preferred}}
	}
	kind := func(name string) metav1.APIResource {
		return metav1.APIResource{Kind: name, Name: name + "s", Verbs: verbs}
	}
	status := metav1.APIResource{Kind: "Old", Name: "Olds/status"}
	return []*metav1.APIGroup{group("", "v1"), group("example.com", "v2")}, []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{kind("Pod")}},
		{GroupVersion: "example.com/v2", APIResources: []metav1.APIResource{kind("Both")}},
		{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{kind("Both"), kind("Old"), status}},
	}, d.err
}

// SEL-08: without a version, the preferred one; a kind that it lacks has another one.
func TestServed(t *testing.T) {
	failing := schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1"}
	resources, failed, err := watching.Served(t.Context(), discovered{err: &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{failing: errors.New("no answer")}}})
	if err != nil || len(failed) != 1 || failed[failing] == nil {
		t.Errorf("error = %v, failed = %v, want only the failed group", err, failed)
	}
	preferred := map[string]bool{}
	for _, r := range resources {
		preferred[r.Version+" "+r.Kind] = r.Preferred
	}
	want := map[string]bool{"v1 Pod": true, "v2 Both": true, "v1 Both": false, "v1 Old": true}
	if len(preferred) != len(want) {
		t.Errorf("kinds = %v, want %v", preferred, want)
	}
	for name, is := range want {
		if preferred[name] != is {
			t.Errorf("%s is preferred: %t, want %t", name, preferred[name], is)
		}
	}
	if _, _, err := watching.Served(t.Context(), discovered{err: errors.New("unreachable")}); err == nil {
		t.Error("no error for an unreachable API server")
	}
}

func TestClient(t *testing.T) {
	withNames := func(names ...string) client.Client {
		builder := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
		for _, name := range names {
			builder = builder.WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		return builder.Build()
	}
	manager, own := withNames("manager"), withNames("own")
	c := watching.NewClient(manager, own, clientgoscheme.Scheme)
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	untyped := &unstructured.Unstructured{}
	untyped.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	expect := func(name string, want client.Client, obj client.Object) {
		t.Helper()
		for key, from := range map[string]client.Client{"manager": manager, "own": own} {
			if err := c.Get(t.Context(), client.ObjectKey{Name: key}, obj); (err == nil) != (from == want) {
				t.Errorf("%s: reading %q: error = %v, want success: %t", name, key, err, from == want)
			}
		}
	}
	expect("before", manager, &corev1.Secret{})
	stop := c.UseCache(&corev1.Secret{}, own)
	expect("a kind with its own cache", own, &corev1.Secret{})
	expect("another kind", manager, &corev1.ConfigMap{})
	expect("metadata", manager, metadata)
	expect("unstructured", manager, untyped)
	list := &corev1.SecretList{}
	if err := c.List(context.Background(), list); err != nil || len(list.Items) != 1 || list.Items[0].Name != "own" {
		t.Errorf("error = %v, list = %v, want the object of the own cache", err, list.Items)
	}
	stop()
	expect("after", manager, &corev1.Secret{})
	stop = c.UseCache(metadata, own)
	expect("typed, with a cache of metadata", manager, &corev1.Secret{})
	stop()
	c.UseCache(untyped, own)()
	c.Declare(&corev1.ConfigMap{})
	expect("a declared kind without a cache", own, &corev1.ConfigMap{})
	stop = c.UseCache(&corev1.ConfigMap{}, manager)
	expect("a declared kind with a cache", manager, &corev1.ConfigMap{})
	stop()
	expect("a declared kind after its cache has ended", own, &corev1.ConfigMap{})
}
