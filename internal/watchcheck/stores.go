package watchcheck

import (
	"maps"
	"slices"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// StoreVersion returns the resource version of the store of an informer for a namespace; empty if it is unknown. The store contains all
// changes up to this version.
func StoreVersion(i cache.Informer, namespace string) string {
	informers := informersByNamespace(i)
	one, ok := informers[namespace]
	if !ok {
		one = informers[""]
	}
	stored, ok := one.(interface{ GetStore() toolscache.Store })
	if !ok {
		return ""
	}
	return stored.GetStore().LastStoreSyncResourceVersion()
}

// Namespaces returns the namespaces to which an informer is restricted. It returns none if the informer is not restricted or its namespaces are
// unknown.
func Namespaces(i cache.Informer) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(informersByNamespace(i))), func(namespace string) bool { return namespace == "" })
}
