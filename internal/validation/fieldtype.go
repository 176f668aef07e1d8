package validation

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A FieldType is the type of a field. [GoType] implements it for Go types; a kind's schema can be a different implementation.
type FieldType interface {
	// Child returns the type of an object's field or of a map's values. It returns nil for an unknown field.
	Child(key string) FieldType
	// Children returns the names of an object's fields.
	Children() []FieldName
	// IsMap reports whether the field is a map with arbitrary keys.
	IsMap() bool
	// JSON returns the field's JSON type, or JSONAny if it is unknown. A field of type JSONAny can have unknown children.
	JSON() JSONType
	// IsOmitted reports whether an object's JSON form omits the field if it has this value.
	IsOmitted(value any) bool
}

// A FieldName is a field's name in JSON, and its name in Go if there is a Go type.
type FieldName struct{ JSON, Go string }

// LookUpField follows a path and returns the type of its field. If the path doesn't exist, unknown is the path up to the first missing key,
// and suggestion is a similar path or empty. Below a field of type JSONAny, every path exists.
func LookUpField(root FieldType, path []string) (field FieldType, unknown, suggestion string) {
	field = root
	for i, key := range path {
		next := field.Child(key)
		if next == nil && field.JSON() == JSONAny {
			return field, "", ""
		}
		if next == nil {
			return nil, JoinFieldPath(path[:i+1]), suggestPath(root, path)
		}
		field = next
	}
	return field, "", ""
}

// suggestPath returns the path with corrected keys, up to the first one that it can't correct. The result is empty if it can't correct any.
func suggestPath(root FieldType, path []string) string {
	field, parent := root, root
	var corrected []string
	changed := false
	for i, key := range path {
		next := field.Child(key)
		switch {
		case next == nil && field.JSON() == JSONAny:
			return JoinFieldPath(append(corrected, path[i:]...))
		case next == nil && parent.IsMap() && i > 0 && field.JSON() == JSONString:
			// The path probably contains a map key with unescaped dots.
			corrected[i-1] = strings.Join(path[i-1:], ".")
			return JoinFieldPath(corrected)
		case next == nil:
			if key = closestField(key, field.Children()); key == "" {
				if changed {
					return JoinFieldPath(corrected)
				}
				return ""
			}
			changed = true
			next = field.Child(key)
		}
		corrected = append(corrected, key)
		parent, field = field, next
	}
	return JoinFieldPath(corrected)
}

// closestField returns the JSON name of the field with this Go name, or else the most similar JSON name. It returns an empty string if no
// name is similar.
func closestField(key string, names []FieldName) string {
	var jsonNames []string
	for _, name := range names {
		if strings.EqualFold(name.Go, key) {
			return name.JSON
		}
		jsonNames = append(jsonNames, name.JSON)
	}
	closest, _ := Closest(key, jsonNames)
	return closest
}

// A goField is the FieldType of a field in a Go type.
type goField struct {
	t    reflect.Type
	tags []string // options of the JSON tag, such as omitempty
}

// GoType returns the FieldType for a Go type, or nil for unstructured objects.
func GoType(t reflect.Type) FieldType {
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

func (f goField) JSON() JSONType {
	t := f.elem()
	for _, custom := range []reflect.Type{marshaler, textMarshaler} {
		if t.Implements(custom) || reflect.PointerTo(t).Implements(custom) {
			return JSONAny
		}
	}
	if slices.Contains(f.tags, "string") {
		return JSONAny
	}
	switch t.Kind() {
	case reflect.String:
		return JSONString
	case reflect.Bool:
		return JSONBoolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return JSONInteger
	case reflect.Float32, reflect.Float64:
		return JSONNumber
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return JSONString
		}
		return JSONList
	case reflect.Array:
		return JSONList
	case reflect.Struct, reflect.Map:
		return JSONObject
	default:
		return JSONAny
	}
}

func (f goField) IsMap() bool { return f.elem().Kind() == reflect.Map }

func (f goField) Child(key string) FieldType {
	if f.JSON() == JSONAny {
		return nil // the type has a custom JSON form
	}
	if f.IsMap() {
		return goField{t: f.elem().Elem()}
	}
	for name, field := range f.fields() {
		if name.JSON == key {
			return field
		}
	}
	return nil
}

func (f goField) Children() (names []FieldName) {
	for name := range f.fields() {
		names = append(names, name)
	}
	return names
}

// fields iterates over the fields in a struct's JSON form, including those of embedded structs.
func (f goField) fields() func(yield func(FieldName, FieldType) bool) {
	return func(yield func(FieldName, FieldType) bool) {
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
			if !yield(FieldName{JSON: name, Go: field.Name}, goField{t: field.Type, tags: tags}) {
				return
			}
		}
	}
}

func (f goField) IsOmitted(value any) bool {
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
		return len(value) == 0 && f.IsMap()
	default:
		return false
	}
}
