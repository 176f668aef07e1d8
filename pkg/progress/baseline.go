package progress

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Baseline keeps the last handled essence of an object on the object: what changes are told
// from. Its methods work on the object in memory only.
//
// kopf: settings.persistence.diffbase_storage.
type Baseline interface {
	// Fetch returns the stored essence as JSON text, nil if there is none.
	Fetch(obj client.Object) []byte
	// Store puts an essence, as JSON text, on the object.
	Store(obj client.Object, essence []byte)
	// Clear removes what Store writes from the JSON form of an object.
	Clear(essence map[string]any)
}

// AnnotationBaseline keeps the essence in the annotation "<prefix>/last-handled-configuration"
// (prefix: default [DefaultPrefix] if empty).
//
// kopf: AnnotationsDiffBaseStorage.
func AnnotationBaseline(prefix string) Baseline {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return annotationBaseline{annotationKeys{prefix}}
}

type annotationBaseline struct{ keys annotationKeys }

// Check implements [Checker].
func (b annotationBaseline) Check() error {
	key := b.keys.of(nil, baselineName)[0]
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return fmt.Errorf("the prefix %q makes no valid annotation %q: %s", b.keys.prefix, key, strings.Join(problems, "; "))
	}
	return nil
}

func (b annotationBaseline) Fetch(obj client.Object) []byte {
	for _, value := range b.keys.values(obj, baselineName) {
		return []byte(strings.TrimSpace(value))
	}
	return nil
}

func (b annotationBaseline) Store(obj client.Object, essence []byte) {
	b.keys.write(obj, baselineName, string(essence)+"\n")
}

func (b annotationBaseline) Clear(essence map[string]any) {
	// The keys depend on what the object is, the essence does not say: both forms go.
	own := map[string]bool{}
	for _, id := range []string{baselineName, baselineName + "-ofDRS"} {
		for _, key := range b.keys.of(nil, id) {
			own[key] = true
		}
	}
	clearAnnotations(essence, func(key string) bool { return own[key] })
}
