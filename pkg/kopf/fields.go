package kopf

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// A fieldType describes the type of a field, according to the Go type or the schema of its kind.
type fieldType interface {
	// child returns the type of a field in an object, or of the values of a map. It returns nil for an unknown field.
	child(key string) fieldType
	// children returns the names of the fields of an object.
	children() []fieldName
	// isMap reports whether the field is a map with arbitrary keys.
	isMap() bool
	// json returns the JSON type of the field, or anyType if it is unknown. A field of type anyType can have unknown children.
	json() jsonType
	// isOmitted reports whether the JSON form of an object omits the field if the field has this value.
	isOmitted(value any) bool
}

// A fieldName contains the name of a field in JSON, and its name in Go if there is a Go type.
type fieldName struct{ json, goName string }

// A jsonType is a type of JSON values. Its text has an article, for messages.
type jsonType string

const (
	anyType     jsonType = ""
	stringType  jsonType = "a string"
	integerType jsonType = "an integer"
	numberType  jsonType = "a number"
	booleanType jsonType = "a boolean"
	listType    jsonType = "a list"
	objectType  jsonType = "an object"
)

// lookUpField follows a path and returns the type of its field. If the path does not exist, unknown is the path up to
// the first missing key, and suggestion is a similar path or empty. lookUpField accepts every path below a field of type anyType.
func lookUpField(root fieldType, path []string) (field fieldType, unknown, suggestion string) {
	field = root
	for i, key := range path {
		next := field.child(key)
		if next == nil && field.json() == anyType {
			return field, "", ""
		}
		if next == nil {
			return nil, validation.JoinFieldPath(path[:i+1]), suggestPath(root, path)
		}
		field = next
	}
	return field, "", ""
}

// suggestPath returns the path with corrected keys, up to the first key that it cannot correct. It returns an empty string if it cannot
// correct any key.
func suggestPath(root fieldType, path []string) string {
	field, parent := root, root
	var corrected []string
	changed := false
	for i, key := range path {
		next := field.child(key)
		switch {
		case next == nil && field.json() == anyType:
			return validation.JoinFieldPath(append(corrected, path[i:]...))
		case next == nil && parent.isMap() && i > 0 && field.json() == stringType:
			// The path probably contains the key of a map with dots that are not escaped.
			corrected[i-1] = strings.Join(path[i-1:], ".")
			return validation.JoinFieldPath(corrected)
		case next == nil:
			if key = closestField(key, field.children()); key == "" {
				if changed {
					return validation.JoinFieldPath(corrected)
				}
				return ""
			}
			changed = true
			next = field.child(key)
		}
		corrected = append(corrected, key)
		parent, field = field, next
	}
	return validation.JoinFieldPath(corrected)
}

// closestField returns the JSON name of the field with this Go name, or else the most similar JSON name. It returns an empty string if no
// name is similar.
func closestField(key string, names []fieldName) string {
	var jsonNames []string
	for _, name := range names {
		if strings.EqualFold(name.goName, key) {
			return name.json
		}
		jsonNames = append(jsonNames, name.json)
	}
	closest, _ := validation.Closest(key, jsonNames)
	return closest
}

// A goField is the fieldType of a field in a Go type.
type goField struct {
	t    reflect.Type
	tags []string // options of the JSON tag, such as omitempty
}

// goType returns the fieldType of a Go type, or nil for unstructured objects.
func goType(t reflect.Type) fieldType {
	if t == reflect.TypeFor[*unstructured.Unstructured]() {
		return nil
	}
	return goField{t: t}
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

func (f goField) elem() reflect.Type {
	t := f.t
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func (f goField) json() jsonType {
	t := f.elem()
	for _, custom := range []reflect.Type{marshaler, textMarshaler} {
		if t.Implements(custom) || reflect.PointerTo(t).Implements(custom) {
			return anyType
		}
	}
	if slices.Contains(f.tags, "string") {
		return anyType
	}
	switch t.Kind() {
	case reflect.String:
		return stringType
	case reflect.Bool:
		return booleanType
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return integerType
	case reflect.Float32, reflect.Float64:
		return numberType
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return stringType
		}
		return listType
	case reflect.Array:
		return listType
	case reflect.Struct, reflect.Map:
		return objectType
	default:
		return anyType
	}
}

func (f goField) isMap() bool { return f.elem().Kind() == reflect.Map }

func (f goField) child(key string) fieldType {
	if f.json() == anyType {
		return nil // the type has a custom JSON form
	}
	if f.isMap() {
		return goField{t: f.elem().Elem()}
	}
	for name, field := range f.fields() {
		if name.json == key {
			return field
		}
	}
	return nil
}

func (f goField) children() (names []fieldName) {
	for name := range f.fields() {
		names = append(names, name)
	}
	return names
}

// fields iterates over the fields in the JSON form of a struct, including the fields of embedded structs.
func (f goField) fields() func(yield func(fieldName, fieldType) bool) {
	return func(yield func(fieldName, fieldType) bool) {
		t := f.elem()
		if t.Kind() != reflect.Struct {
			return
		}
		for field := range t.Fields() {
			name, rest, _ := strings.Cut(field.Tag.Get("json"), ",")
			tags := strings.Split(rest, ",")
			if field.Anonymous && name == "" {
				for name, inner := range (goField{t: field.Type}).fields() {
					if !yield(name, inner) {
						return
					}
				}
				continue
			}
			if !field.IsExported() || name == "-" && rest == "" {
				continue
			}
			if name == "" {
				name = field.Name
			}
			if !yield(fieldName{json: name, goName: field.Name}, goField{t: field.Type, tags: tags}) {
				return
			}
		}
	}
}

func (f goField) isOmitted(value any) bool {
	if f.t.Kind() == reflect.Pointer || !slices.Contains(f.tags, "omitempty") {
		return false
	}
	switch value := value.(type) {
	case bool:
		return !value
	case string:
		return value == ""
	case int64:
		return value == 0
	case float64:
		return value == 0
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0 && f.isMap()
	default:
		return false
	}
}

func groupOf(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return "?" // this value equals no group
	}
	return gv.Group
}
