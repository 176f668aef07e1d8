package apiserver

import (
	"maps"
	"reflect"
)

// withField returns a copy of an object with a different value in one field. A nil value removes the field. The copy shares all other
// fields.
func withField(obj object, field string, value any) object {
	out := maps.Clone(obj)
	if out == nil {
		out = object{}
	}
	setField(out, field, value)
	return out
}

func setField(obj object, field string, value any) {
	if value == nil {
		delete(obj, field)
		return
	}
	obj[field] = value
}

// metaOf returns an object's metadata. If the object doesn't have any, it returns an empty map that is not part of the object.
func metaOf(obj object) object {
	if inner, ok := obj["metadata"].(object); ok {
		return inner
	}
	return object{}
}

func text(obj object, field string) string {
	s, _ := obj[field].(string)
	return s
}

func finalizers(obj object) []string {
	list, _ := metaOf(obj)["finalizers"].([]any)
	var out []string
	for _, f := range list {
		if s, ok := f.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func setFinalizers(meta object, list []string) {
	values := []any{}
	for _, f := range list {
		values = append(values, f)
	}
	meta["finalizers"] = values
	if len(values) == 0 {
		delete(meta, "finalizers")
	}
}

// equalExcept reports whether two objects are equal apart from the given top-level fields.
func equalExcept(a, b object, fields ...string) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	for _, f := range fields {
		delete(a, f)
		delete(b, f)
	}
	return reflect.DeepEqual(a, b)
}
