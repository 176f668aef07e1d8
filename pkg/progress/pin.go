package progress

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	pinName = "pinned-configuration"

	// olderPinPrefix is the prefix under which earlier versions stored the pin. We still read and remove these pins, but don't write them.
	olderPinPrefix = "runtime." + DefaultPrefix
)

// annotated is implemented by each [Baseline] and [Store] of this package that can use annotations.
type annotated interface {
	// annotationKeys returns false if the type uses no annotations.
	annotationKeys() (annotationKeys, bool)
}

// Pin returns the store for the pin, which is the essence a running cycle works on. The pin goes into the annotation "pinned-configuration"
// with the prefix of the baseline. If the baseline uses no annotations, the prefix is that of the first store with annotations, or
// [DefaultPrefix]. kopf ignores the annotation.
//
// Earlier versions used the prefix "runtime.kopf.zalando.org" if the baseline used [DefaultPrefix] or no annotations. Fetch still reads
// that annotation, and Store removes it.
func Pin(b Baseline, stores ...Store) Baseline {
	keys, ok := annotationKeysOf(b)
	if ok && keys.prefix != DefaultPrefix {
		return pin{keys}
	}
	if !ok {
		if keys, ok = annotationKeysOf(stores...); !ok {
			keys = keysOf("")
		}
	}
	return pin{keys, annotationKeys{prefix: olderPinPrefix}}
}

// annotationKeysOf returns the keys of the first member that uses annotations.
func annotationKeysOf[T any](parts ...T) (annotationKeys, bool) {
	for _, part := range parts {
		if place, ok := any(part).(annotated); ok {
			if keys, ok := place.annotationKeys(); ok {
				return keys, true
			}
		}
	}
	return annotationKeys{}, false
}

func (b annotationBaseline) annotationKeys() (annotationKeys, bool) { return b.keys, true }
func (b ignoringBaseline) annotationKeys() (annotationKeys, bool) {
	return annotationKeysOf(b.Baseline)
}
func (m multiBaseline) annotationKeys() (annotationKeys, bool)   { return annotationKeysOf(m...) }
func (s annotationStore) annotationKeys() (annotationKeys, bool) { return s.keys, true }
func (s smartStore) annotationKeys() (annotationKeys, bool)      { return s.annotations.keys, true }
func (m multiStore) annotationKeys() (annotationKeys, bool)      { return annotationKeysOf(m...) }

// A pin stores the pinned essence in the format of a baseline. Store writes the annotation of the first element and removes those of the
// others. Fetch reads all of them.
type pin []annotationKeys

// UsesOnlyAnnotations implements [AnnotationUser].
func (p pin) UsesOnlyAnnotations(client.Object) bool { return true }

// Fetch returns "null" for an annotation that contains null, so that callers remove it.
func (p pin) Fetch(obj client.Object) []byte {
	for _, keys := range p {
		for _, value := range keys.values(obj, pinName) {
			return []byte(strings.TrimSpace(value))
		}
	}
	if slices.ContainsFunc(p, func(keys annotationKeys) bool { return keys.has(obj, pinName) }) {
		return []byte("null")
	}
	return nil
}

// Store writes the essence to the object or, if it is nil, removes the pin.
func (p pin) Store(obj client.Object, essence []byte) {
	for _, keys := range p {
		if keys.has(obj, pinName) {
			keys.remove(obj, pinName)
		}
	}
	if essence != nil {
		p[0].write(obj, pinName, string(essence))
	}
}

func (p pin) Clear(essence map[string]any) {
	clearAnnotations(essence, func(key string) bool {
		return slices.ContainsFunc(p, func(keys annotationKeys) bool { return strings.HasPrefix(key, keys.prefix+"/"+pinName) })
	})
}

func (p pin) String() string { return fmt.Sprintf("%s/%s", p[0].prefix, pinName) }
