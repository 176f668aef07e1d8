package apiserver

import (
	"maps"
	"reflect"
)

// with is a copy of an object with one field replaced, or left out if the value is nil; the rest is shared.
func with(obj object, field string, value any) object {
	out := maps.Clone(obj)
	if out == nil {
		out = object{}
	}
	replace(out, field, value)
	return out
}

func replace(obj object, field string, value any) {
	if value == nil {
		delete(obj, field)
		return
	}
	obj[field] = value
}

// metaOf are the metadata of an object; new ones, outside of it, if there are none.
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

// equalBut reports whether two objects are the same apart from some fields.
func equalBut(a, b object, fields ...string) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	for _, f := range fields {
		delete(a, f)
		delete(b, f)
	}
	return reflect.DeepEqual(a, b)
}
