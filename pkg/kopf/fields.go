package kopf

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var marshaler = reflect.TypeFor[json.Marshaler]()

// unknownField returns the first part of the path that the JSON form of a Go type cannot have; empty if it
// can have all of it.
func unknownField(t reflect.Type, path []string) string {
	if t == reflect.TypeFor[*unstructured.Unstructured]() {
		return ""
	}
	for i, key := range path {
		var open bool
		if t, open = fieldType(t, key); open {
			return ""
		}
		if t == nil {
			return strings.Join(path[:i+1], ".")
		}
	}
	return ""
}

// fieldType is the type of a field, by its JSON name; open if the type may have any fields.
func fieldType(t reflect.Type, key string) (field reflect.Type, open bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Interface, t.Implements(marshaler), reflect.PointerTo(t).Implements(marshaler):
		return nil, true
	case t.Kind() == reflect.Map:
		return t.Elem(), false
	case t.Kind() != reflect.Struct:
		return nil, false
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && !f.Anonymous {
			name = f.Name
		}
		if name == key && f.IsExported() {
			return f.Type, false
		}
		if f.Anonymous && name == "" {
			if inner, open := fieldType(f.Type, key); inner != nil || open {
				return inner, open
			}
		}
	}
	return nil, false
}

func groupOf(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return "?" // of no group
	}
	return gv.Group
}
