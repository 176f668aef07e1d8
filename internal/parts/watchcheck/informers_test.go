package watchcheck

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// This test fails if an upgrade of controller-runtime renames an unexported field that informersByNamespace and CacheNamespaces read.
func TestInformersOf_CachesOfControllerRuntime(t *testing.T) {
	configMap, node := &corev1.ConfigMap{}, &corev1.Node{}
	two := cache.Options{DefaultNamespaces: map[string]cache.Config{"one": {}, "two": {}}}
	restricted := cache.Options{ByObject: map[client.Object]cache.ByObject{configMap: {Namespaces: map[string]cache.Config{"three": {}}}}}
	for _, c := range []struct {
		name    string
		options cache.Options
		obj     client.Object
		want    []string
	}{
		{"all namespaces", cache.Options{}, configMap, []string{""}},
		{"some namespaces", two, configMap, []string{"one", "two"}},
		{"a cluster-scoped kind in a cache of some namespaces", two, node, []string{""}},
		{"one namespace for the kind", restricted, configMap, []string{"three"}},
		{"all namespaces for the others", restricted, node, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
			c.options.Scheme, c.options.Mapper, c.options.HTTPClient = clientgoscheme.Scheme, mapper, http.DefaultClient
			made, err := cache.New(&rest.Config{Host: "http://nowhere.example.com"}, c.options)
			if err != nil {
				t.Fatal(err)
			}
			gvk, err := apiutil.GVKForObject(c.obj, clientgoscheme.Scheme)
			if err != nil {
				t.Fatal(err)
			}
			restricted := slices.DeleteFunc(slices.Clone(c.want), func(namespace string) bool { return namespace == "" })
			if got := CacheNamespaces(made, gvk); c.obj == client.Object(configMap) && !slices.Equal(got, restricted) {
				t.Errorf("namespaces of the cache = %q, want %q", got, restricted)
			}
			i, err := made.GetInformer(t.Context(), c.obj, cache.BlockUntilSynced(false))
			if err != nil {
				t.Fatal(err)
			}
			found := informersByNamespace(i)
			if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, c.want) {
				t.Errorf("informers for the namespaces %q, want %q", got, c.want)
			}
			for namespace, one := range found {
				if version := one.LastSyncResourceVersion(); version != "" {
					t.Errorf("version of the informer for %q before its start = %q, want none", namespace, version)
				}
			}
		})
	}
}

func TestInformersOf_WrappedCache(t *testing.T) {
	for _, i := range []cache.Informer{nil, struct{ cache.Informer }{}, &struct{ cache.Informer }{}} {
		if found := informersByNamespace(i); len(found) > 0 {
			t.Errorf("informersByNamespace returned %v for %T, want none", found, i)
		}
	}
	checker := New(Options{Informer: func(context.Context) (cache.Informer, error) { return struct{ cache.Informer }{}, nil }})
	if found := checker.findInformer(t.Context()); found == nil {
		t.Error("got no informer, want the wrapped one")
	}
}
