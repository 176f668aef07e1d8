package watchcheck

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// informer is the part of a client-go informer that reports the last resource version it has received.
type informer interface{ LastSyncResourceVersion() string }

// clusterScope is controller-runtime's key for kinds without namespaces.
const clusterScope = "_cluster-scope"

// informersByNamespace returns the client-go informers behind a controller-runtime informer, by namespace, or nil if it hides them. A cache
// for some namespaces keeps one per namespace in an unexported field, and controller-runtime has no other access to them.
func informersByNamespace(i cache.Informer) map[string]informer {
	if several, ok := i.(interface {
		ByNamespace() map[string]cache.Informer
	}); ok {
		found := map[string]informer{}
		for namespace, one := range several.ByNamespace() {
			for _, informer := range informersByNamespace(one) { // there is exactly one
				found[namespace] = informer
			}
		}
		return found
	}
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

// CacheNamespaces returns the namespaces that a controller-runtime cache is restricted to for a kind, or nil if there is no restriction or
// it can't find out. It has to read unexported fields, because controller-runtime has no other access to them. It doesn't create an
// informer.
func CacheNamespaces(c cache.Cache, gvk schema.GroupVersionKind) (namespaces []string) {
	for wrapper, ok := c.(interface{ Unwrap() cache.Cache }); ok; wrapper, ok = c.(interface{ Unwrap() cache.Cache }) {
		c = wrapper.Unwrap()
	}
	one := structOf(reflect.ValueOf(c))
	if one.Kind() != reflect.Struct {
		return nil
	}
	if byKind := one.FieldByName("caches"); byKind.Kind() == reflect.Map && byKind.Type().Key() == reflect.TypeFor[schema.GroupVersionKind]() {
		if found := byKind.MapIndex(reflect.ValueOf(gvk)); found.IsValid() {
			one = structOf(found)
		} else {
			one = structOf(one.FieldByName("defaultCache"))
		}
	}
	if one.Kind() != reflect.Struct {
		return nil
	}
	byNamespace := one.FieldByName("namespaceToCache")
	if byNamespace.Kind() != reflect.Map || byNamespace.Type().Key().Kind() != reflect.String {
		return nil
	}
	for _, key := range byNamespace.MapKeys() {
		namespace := key.String()
		if namespace == cache.AllNamespaces {
			return nil
		}
		namespaces = append(namespaces, namespace)
	}
	slices.Sort(namespaces)
	return namespaces
}

// structOf returns the value behind all interfaces and pointers.
func structOf(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v
}
