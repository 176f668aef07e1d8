package progress

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// A Baseline stores the last-handled configuration of an object on the object. That is the essence the last cycle ended with: the spec,
// labels, annotations and other fields that count for change detection. The methods change the object only in memory.
//
// Equivalent in kopf: settings.persistence.diffbase_storage.
type Baseline interface {
	// Fetch returns the stored essence as JSON, or nil if there is none.
	Fetch(obj client.Object) []byte
	// Store writes an essence, encoded as JSON, to the object.
	Store(obj client.Object, essence []byte)
	// Clear removes the stored essence from an object in JSON form.
	Clear(essence map[string]any)
}

// AnnotationBaseline stores the essence in the annotation "<prefix>/last-handled-configuration". An empty prefix means [DefaultPrefix].
//
// Equivalent in kopf: AnnotationsDiffBaseStorage.
func AnnotationBaseline(prefix string) Baseline { return AnnotationBaselineKey(prefix, "") }

// AnnotationBaselineKey is [AnnotationBaseline] with a name other than "last-handled-configuration". Use it for objects that kopf handled
// with that name. No handler may have the name as its id.
//
// Equivalent in kopf: AnnotationsDiffBaseStorage(key=...).
func AnnotationBaselineKey(prefix, name string) Baseline {
	if name == "" {
		name = baselineName
	}
	return annotationBaseline{keys: keysOf(prefix), name: name}
}

// AnnotationBaselineV2 is like [AnnotationBaseline], but without the second key. AnnotationBaseline uses a second key for prefixes of more
// than 36 characters, and for ReplicaSets of Deployments with prefixes of more than 30 characters. [AnnotationsV2] is the corresponding
// store.
//
// Equivalent in kopf: AnnotationsDiffBaseStorage(v1=False).
func AnnotationBaselineV2(prefix string) Baseline {
	return annotationBaseline{keys: keysOf(prefix).withoutV1(), name: baselineName}
}

type annotationBaseline struct {
	keys annotationKeys
	name string
}

// Check implements [Checker].
func (b annotationBaseline) Check() error {
	key := b.keys.of(nil, b.name)[0]
	if err := validation.QualifiedName(key); err != nil {
		return fmt.Errorf("prefix %q results in the invalid annotation %q: %w", b.keys.prefix, key, err)
	}
	if b.name != baselineName && isReserved(b.name) {
		return fmt.Errorf("annotation %q is reserved by the framework: choose another name for the baseline", key)
	}
	return nil
}

// UsesOnlyAnnotations implements [AnnotationUser].
func (b annotationBaseline) UsesOnlyAnnotations(client.Object) bool { return true }

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
	// The keys depend on the kind, which the essence doesn't contain, so remove both forms.
	var own []string
	clearAnnotations(essence, func(key string) bool {
		if own == nil {
			own = slices.Concat(b.keys.of(nil, b.name), b.keys.of(nil, b.name+ownedSuffix))
		}
		return slices.Contains(own, key)
	})
}

// StatusBaseline stores the essence in a field of the object, as a JSON string. The field is a dotted path; an empty path means
// "status.kopf.last-handled-configuration". The Go type and the schema must declare it as a string. If the Go type lacks the field, the
// baseline writes nothing, so use [CheckType] and [CheckSchema].
//
// Equivalent in kopf: StatusDiffBaseStorage.
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
		// Another client wrote this value. The caller decides whether it is an essence.
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
	// CheckType should have found any error before the first object is handled.
	_ = b.field.write(obj, strings.TrimSpace(string(essence)))
}

func (b statusBaseline) Clear(essence map[string]any) { b.field.clear(essence) }
