package progress

import (
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const digestName = "last-handled-digest"

// Digest returns the store for the digest of an essence that is too large for the object. The digest goes into the annotation
// "last-handled-digest" with the prefix of the baseline. If the baseline uses no annotations, the prefix is that of the first store with
// annotations, or [DefaultPrefix]. kopf ignores the annotation. To remove it, call Store with nil.
func Digest(b Baseline, stores ...Store) Baseline {
	keys, ok := annotationKeysOf(b)
	if !ok {
		keys, ok = annotationKeysOf(stores...)
	}
	if !ok {
		keys = keysOf("")
	}
	return digestPlace{keys}
}

type digestPlace struct{ keys annotationKeys }

func (p digestPlace) Fetch(obj client.Object) []byte {
	for _, value := range p.keys.values(obj, digestName) {
		return []byte(strings.TrimSpace(value))
	}
	return nil
}

func (p digestPlace) Store(obj client.Object, digest []byte) {
	if digest != nil {
		p.keys.write(obj, digestName, string(digest))
		return
	}
	if p.keys.has(obj, digestName) {
		p.keys.remove(obj, digestName)
	}
}

func (p digestPlace) Clear(essence map[string]any) {
	clearAnnotations(essence, func(key string) bool {
		return strings.HasPrefix(key, p.keys.prefix+"/"+digestName)
	})
}

func (p digestPlace) String() string { return fmt.Sprintf("%s/%s", p.keys.prefix, digestName) }
