package watchcheck

import (
	"maps"
	"slices"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Store returns an informer's store for a namespace, or nil if it isn't known. Its objects are shared with the cache and must not be
// changed.
func Store(i cache.Informer, namespace string) toolscache.Store {
	informers := informersByNamespace(i)
	one, ok := informers[namespace]
	if !ok {
		one = informers[""]
	}
	stored, ok := one.(interface{ GetStore() toolscache.Store })
	if !ok {
		return nil
	}
	return stored.GetStore()
}

// Namespaces returns the namespaces that an informer is restricted to. It is empty if the informer isn't restricted or its namespaces are
// unknown.
func Namespaces(i cache.Informer) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(informersByNamespace(i))), func(namespace string) bool { return namespace == "" })
}
