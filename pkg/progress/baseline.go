package progress

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
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
func AnnotationBaseline(prefix string) Baseline { return AnnotationBaselineKey(prefix, "") }

// AnnotationBaselineKey is [AnnotationBaseline] with another name than "last-handled-configuration" behind the prefix,
// for objects on which kopf has kept it so. No handler may have that name as its id.
//
// kopf: AnnotationsDiffBaseStorage(key=...).
func AnnotationBaselineKey(prefix, name string) Baseline {
	if name == "" {
		name = baselineName
	}
	return annotationBaseline{keys: keysOf(prefix), name: name}
}

// AnnotationBaselineV2 is [AnnotationBaseline] without the second key that it has with prefixes of more
// than 36 characters, as [AnnotationsV2] is for records.
//
// kopf: AnnotationsDiffBaseStorage(v1=False).
func AnnotationBaselineV2(prefix string) Baseline {
	return annotationBaseline{keys: keysOf(prefix).onlyV2(), name: baselineName}
}

type annotationBaseline struct {
	keys annotationKeys
	name string
}

// Check implements [Checker].
func (b annotationBaseline) Check() error {
	key := b.keys.of(nil, b.name)[0]
	if err := validation.QualifiedName(key); err != nil {
		return fmt.Errorf("the prefix %q makes no valid annotation %q: %w", b.keys.prefix, key, err)
	}
	if slices.Contains([]string{markerName, touchName, pinName, digestName}, b.name) {
		return fmt.Errorf("the baseline cannot be kept in %q, which is an annotation of the framework's own: choose another name", key)
	}
	return nil
}

func (b annotationBaseline) Fetch(obj client.Object) []byte {
	for _, value := range b.keys.values(obj, b.name) {
		return []byte(strings.TrimSpace(value))
	}
	return nil
}

func (b annotationBaseline) Store(obj client.Object, essence []byte) {
	b.keys.write(obj, b.name, string(essence)+"\n")
}

func (b annotationBaseline) Clear(essence map[string]any) {
	// The keys depend on what the object is, the essence does not say: both forms go.
	own := map[string]bool{}
	for _, id := range []string{b.name, b.name + ownedSuffix} {
		for _, key := range b.keys.of(nil, id) {
			own[key] = true
		}
	}
	clearAnnotations(essence, func(key string) bool { return own[key] })
}

// StatusBaseline keeps the essence in a field of the object (a dotted path; default
// "status.kopf.last-handled-configuration" if empty), as a string of JSON. The kind must have the field,
// as a string: on an object whose Go type has none nothing is stored, see [CheckType] and [CheckSchema].
//
// kopf: StatusDiffBaseStorage.
func StatusBaseline(field string) Baseline {
	if field == "" {
		field = defaultBaselineField
	}
	return statusBaseline{objectField(field)}
}

type statusBaseline struct{ field objectField }

// Check implements [Checker].
func (b statusBaseline) Check() error { return b.field.check() }

// Fields implements [FieldUser].
func (b statusBaseline) Fields() []string { return []string{string(b.field)} }

func (b statusBaseline) Fetch(obj client.Object) []byte {
	value, err := b.field.read(obj)
	if err != nil || value == nil {
		return nil
	}
	text, isString := value.(string)
	if !isString {
		// Nobody writes this: whether it is an essence is for the reader to say.
		other, err := json.Marshal(value)
		if err != nil {
			return nil
		}
		return other
	}
	if text = strings.TrimSpace(text); text == "" || text == "null" {
		return nil
	}
	return []byte(text)
}

func (b statusBaseline) Store(obj client.Object, essence []byte) {
	// What could fail is told by CheckType before the first object is handled.
	_ = b.field.write(obj, strings.TrimSpace(string(essence)))
}

func (b statusBaseline) Clear(essence map[string]any) { b.field.clear(essence) }
