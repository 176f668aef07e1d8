package patch

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// Null is the value with which a [MergePatch] sets a field to null. A JSON merge patch can't do that, since null removes the field there as
// nil does here, so the writer sends a JSON patch instead.
var Null any = null{}

type null struct{}

// MarshalJSON implements [json.Marshaler].
func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// withNulls turns a JSON value into a patch's value. Lists stay as they are, because a patch replaces them as a whole.
func withNulls(value any) any {
	switch v := value.(type) {
	case nil:
		return Null
	case map[string]any:
		var out map[string]any
		for key, inner := range v {
			changed := withNulls(inner)
			if same(inner, changed) {
				continue
			}
			if out == nil {
				out = maps.Clone(v)
			}
			out[key] = changed
		}
		if out != nil {
			return out
		}
	}
	return value
}

// same reports whether two values are not nil and, if they are maps, are the same map.
func same(a, b any) bool {
	if fields, ok := a.(map[string]any); ok {
		return reflect.ValueOf(fields).Pointer() == reflect.ValueOf(b).Pointer()
	}
	return a != nil
}

// valueOf returns the JSON value that an absent field gets from a patch's value.
func valueOf(value any) any {
	switch v := value.(type) {
	case null:
		return nil
	case map[string]any:
		return MergePatch(v).Apply(nil)
	}
	return value
}

// HasNull reports whether the patch sets a field to null.
func (p MergePatch) HasNull() bool {
	for _, value := range p {
		inner, isMap := value.(map[string]any)
		if value == Null || isMap && MergePatch(inner).HasNull() {
			return true
		}
	}
	return false
}

// WithoutNulls returns the patch with nulls replaced: they become removals if the content has the field, and are dropped otherwise.
func (p MergePatch) WithoutNulls(content map[string]any) MergePatch {
	if !p.HasNull() {
		return p
	}
	out := MergePatch{}
	for key, value := range p {
		current, had := content[key]
		switch v := value.(type) {
		case null:
			if had && current != nil {
				out[key] = nil
			}
		case map[string]any:
			fields, _ := current.(map[string]any)
			if inner := MergePatch(v).WithoutNulls(fields); len(inner) > 0 || len(v) == 0 {
				out[key] = map[string]any(inner)
			}
		default:
			out[key] = value
		}
	}
	return out
}

// DeepCopy returns a deep copy of the patch.
func (p MergePatch) DeepCopy() MergePatch { return deepCopy(map[string]any(p)).(map[string]any) }

func deepCopy(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			out[key] = deepCopy(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = deepCopy(inner)
		}
		return out
	}
	return value
}

// equalWithNulls is [diff.Equal], except that null differs from an absent field.
func equalWithNulls(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		if reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() {
			return true // JSON forms of one object share fields that have not changed
		}
		for key, value := range a {
			if other, found := b[key]; !found || !equalWithNulls(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalWithNulls)
	}
	return diff.Equal(a, b)
}

// jsonPatch returns the operations of a JSON patch (RFC 6902) that applies the patch to exactly this content.
func (p MergePatch) jsonPatch(content map[string]any) []any {
	var operations []any
	var walk func(doc, content map[string]any, path string)
	walk = func(doc, content map[string]any, path string) {
		for _, key := range slices.Sorted(maps.Keys(doc)) {
			value, at := doc[key], path+"/"+pointerEscaper.Replace(key)
			current, had := content[key]
			inner, isMap := value.(map[string]any)
			fields, wasMap := current.(map[string]any)
			switch {
			case isMap && wasMap:
				walk(inner, fields, at)
			case value == nil && had:
				operations = append(operations, map[string]any{"op": "remove", "path": at})
			case value != nil:
				operations = append(operations, map[string]any{"op": "add", "path": at, "value": valueOf(value)})
			}
		}
	}
	walk(p, content, "")
	return operations
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")
