package validation

import (
	"fmt"
	"hash/fnv"
	"regexp"
)

const (
	annotationDomain  = "kopf-runtime.dev/"
	maxAnnotationName = 63 // the part after the domain
)

var forbidden = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// AnnotationKey returns the key of an annotation that the library stores for a handler. If the id contains invalid characters, is too long,
// or ends with a separator, a hash of the id is appended.
func AnnotationKey(prefix, id string) string {
	name := prefix + forbidden.ReplaceAllString(id, "-")
	if last := name[len(name)-1]; name != prefix+id || len(name) > maxAnnotationName || last == '.' || last == '-' || last == '_' {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(id))
		name = fmt.Sprintf("%s-%08x", name[:min(len(name), maxAnnotationName-9)], hash.Sum32())
	}
	return annotationDomain + name
}
