package annotations

import "strings"

const (
	// LastApplied is the annotation in which kubectl apply keeps the last applied configuration.
	LastApplied = "kubectl.kubernetes.io/last-applied-configuration"

	kopfDomain      = "kopf.zalando.org" // the stores' default prefix
	frameworkDomain = "kopf-runtime.dev" // prefix of the library's other annotations, such as those of package children
	markerSuffix    = "/kopf-managed"
)

// IsManaged reports whether an annotation belongs to an operator that uses kopf or this library. Besides the known prefixes, it recognizes
// every prefix that has a marker annotation in all, the object's annotations. Stores with their own prefix write such a marker.
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

// Mark adds the marker of a prefix to an object's annotations. Prefixes that IsManaged knows don't need one.
func Mark(all map[string]string, prefix string) {
	if !IsManaged(prefix+"/", all) {
		all[prefix+markerSuffix] = "yes"
	}
}

// IsMarker reports whether an annotation is one of the markers that [IsManaged] looks for.
func IsMarker(key string) bool { return strings.HasSuffix(key, markerSuffix) }

// OfUsers returns a copy of the annotations without those of operators and kubectl apply.
func OfUsers(all map[string]string) map[string]string {
	kept := make(map[string]string, len(all))
	for key, value := range all {
		if key != LastApplied && !IsManaged(key, all) {
			kept[key] = value
		}
	}
	return kept
}
