package watchcheck

import (
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// informer is the part of a client-go informer that returns the last received resource version.
type informer interface{ LastSyncResourceVersion() string }

// clusterScope is the key that controller-runtime uses for kinds without namespaces.
const clusterScope = "_cluster-scope"

// informersByNamespace returns the client-go informers of an informer of controller-runtime, by namespace. If the informer hides them, it returns none. A
// cache for some namespaces has one informer per namespace in an unexported field. controller-runtime provides no other access to them.
func informersByNamespace(i cache.Informer) map[string]informer {
	if single, ok := i.(informer); ok {
		return map[string]informer{"": single}
	}
	value := reflect.Indirect(reflect.ValueOf(i))
	if value.Kind() != reflect.Struct {
		return nil
	}
	byNamespace := value.FieldByName("namespaceToInformer")
	if byNamespace.Kind() != reflect.Map || byNamespace.Type().Key().Kind() != reflect.String {
		return nil
	}
	found := map[string]informer{}
	for entries := byNamespace.MapRange(); entries.Next(); {
		namespace, pointer := entries.Key().String(), entries.Value()
		if pointer.Kind() == reflect.Interface {
			pointer = pointer.Elem()
		}
		if pointer.Kind() != reflect.Pointer {
			return nil
		}
		single, ok := reflect.TypeAssert[informer](reflect.NewAt(pointer.Type().Elem(), pointer.UnsafePointer()))
		if !ok {
			return nil
		}
		if namespace == clusterScope {
			namespace = ""
		}
		found[namespace] = single
	}
	return found
}
