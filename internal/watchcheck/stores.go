package watchcheck

import (
	"maps"
	"slices"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// StoreVersion returns the version up to which the store of an informer shows the objects of a namespace; empty if that is not
// known. All that the API server had changed until then is in the store.
func StoreVersion(i cache.Informer, namespace string) string {
	informers := informersOf(i)
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

// Namespaces returns the namespaces to which an informer is restricted; none if it is not, or if they are not known.
func Namespaces(i cache.Informer) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(informersOf(i))), func(namespace string) bool { return namespace == "" })
}
