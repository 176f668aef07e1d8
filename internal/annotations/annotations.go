package annotations

import "strings"

const (
	// LastApplied is the annotation of kubectl apply.
	LastApplied = "kubectl.kubernetes.io/last-applied-configuration"

	kopfDomain      = "kopf.zalando.org" // the default prefix of stores
	frameworkDomain = "kopf-runtime.dev" // domain of other annotations of the library, for example in package children
	markerSuffix    = "/kopf-managed"
)

// IsManaged reports whether an annotation belongs to an operator with kopf or this library. all are the annotations of the object. IsManaged recognizes known
// prefixes, and all prefixes with a marker annotation, which the stores with a prefix of their own write.
func IsManaged[V any](key string, all map[string]V) bool {
	prefix, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	if prefix == kopfDomain || prefix == frameworkDomain || strings.HasSuffix(prefix, "."+kopfDomain) {
		return true
	}
	_, marked := all[prefix+markerSuffix]
	return marked
}

// IsMarker reports whether an annotation is a marker of [IsManaged].
func IsMarker(key string) bool { return strings.HasSuffix(key, markerSuffix) }

// OfUsers returns a new map without the annotations of operators and of kubectl apply.
func OfUsers(all map[string]string) map[string]string {
	kept := make(map[string]string, len(all))
	for key, value := range all {
		if key != LastApplied && !IsManaged(key, all) {
			kept[key] = value
		}
	}
	return kept
}
