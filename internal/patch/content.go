package patch

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Content returns the JSON form of an object. For an unstructured object it is the content of the object, not a copy. For a Go
// type it contains no managed fields, because their conversion is expensive and the engine does not use them.
func Content(obj client.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	return contentOfType(obj, Converted{})
}

// contentOfType returns the JSON form of an object of a Go type. It may share values of the metadata with the JSON form of another state of the object.
func contentOfType(obj client.Object, known Converted) (map[string]any, error) {
	rest := ShallowCopy(obj)
	meta, restMeta := metadataOf(obj), metadataOf(rest)
	if meta == nil || restMeta == meta {
		return runtime.DefaultUnstructuredConverter.ToUnstructured(withoutManagedFields(obj))
	}
	*restMeta = metav1.ObjectMeta{}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rest)
	if err != nil {
		return nil, err
	}
	var knownMeta *metav1.ObjectMeta
	knownContent, ok := known.Content["metadata"].(map[string]any)
	if ok {
		knownMeta = metadataOf(known.Object)
	}
	if converted := metadataContent(meta, knownMeta, knownContent); len(converted) > 0 {
		content["metadata"] = converted
	}
	return content, nil
}

// Converted is an object with its JSON form, which is nil if it is not known. The methods change neither of them.
type Converted struct {
	Object  client.Object
	Content map[string]any
}

// ContentOf returns the JSON form of another state of the object, like [Content]. It does not convert the top-level fields that have not changed: they
// have the known values.
func (known Converted) ContentOf(obj client.Object) (map[string]any, error) {
	return known.convert(obj, Content)
}

// JSONTypedContentOf returns the JSON form of another state of the object, like [JSONTypedContent]. It does not convert the top-level fields that have not
// changed: they have the known values. If no field has changed, it returns the known JSON form.
func (known Converted) JSONTypedContentOf(obj client.Object) (map[string]any, error) {
	if known.Content != nil && fieldNames(obj) == nil && reflect.DeepEqual(known.Object, obj) {
		return known.Content, nil
	}
	return known.convert(obj, JSONTypedContent)
}

func (known Converted) convert(obj client.Object, content func(client.Object) (map[string]any, error)) (map[string]any, error) {
	if known.Content == nil {
		return content(obj)
	}
	changed, unchanged, ok := compareFields(known.Object, obj)
	switch {
	case !ok:
		return content(obj)
	case changed == nil:
		return known.Content, nil
	}
	out, err := contentOfType(changed, known)
	if err != nil {
		return content(obj) // a type may have no JSON form of its zero value
	}
	for _, name := range unchanged {
		if value, ok := known.Content[name]; ok {
			out[name] = value
		} else {
			delete(out, name)
		}
	}
	return out, nil
}

// Decode sets an empty object from another JSON form, which differs at most in some top-level fields. For a Go type, it decodes only these fields; the
// object shares the others with the known object.
func (known Converted) Decode(content map[string]any, fields MergePatch, into client.Object) error {
	names := fieldNames(known.Object)
	if names == nil || reflect.TypeOf(known.Object) != reflect.TypeOf(into) {
		return FromContent(content, into)
	}
	changed := make(map[string]any, len(fields))
	for name := range fields {
		if value, ok := content[name]; ok {
			changed[name] = value
		}
	}
	if err := FromContent(changed, into); err != nil {
		return err
	}
	from, target := reflect.ValueOf(known.Object).Elem(), reflect.ValueOf(into).Elem()
	for i, name := range names {
		if _, decoded := fields[name]; !decoded {
			target.Field(i).Set(from.Field(i))
		}
	}
	return nil
}

// compareFields returns a copy of an object without the top-level fields that are equal in a known object, and the JSON names of these fields. The copy is
// nil if all fields are equal. compareFields returns false if the fields have no names, see [fieldNames].
func compareFields(known, obj client.Object) (changed client.Object, unchanged []string, ok bool) {
	names := fieldNames(obj)
	if names == nil || reflect.TypeOf(known) != reflect.TypeOf(obj) {
		return nil, nil, false
	}
	before, after := reflect.ValueOf(known).Elem(), reflect.ValueOf(obj).Elem()
	equal := make([]bool, len(names))
	differs := false
	for i, name := range names {
		equal[i] = name != "" && reflect.DeepEqual(before.Field(i).Addr().Interface(), after.Field(i).Addr().Interface())
		differs = differs || name != "" && !equal[i]
	}
	if !differs {
		return nil, nil, true
	}
	changed = ShallowCopy(obj)
	for i, name := range names {
		if equal[i] {
			reflect.ValueOf(changed).Elem().Field(i).SetZero()
			unchanged = append(unchanged, name)
		}
	}
	return changed, unchanged, true
}

var fieldNamesByType sync.Map // from reflect.Type to []string

// fieldNames returns the JSON names of the top-level fields of a Go type, with "" for metav1.TypeMeta. It returns nil for unstructured objects, and for
// Go types with other fields that are inline or have no JSON name.
func fieldNames(obj client.Object) []string {
	t := reflect.TypeOf(obj).Elem()
	if known, ok := fieldNamesByType.Load(t); ok {
		return known.([]string)
	}
	names := jsonNames(t)
	fieldNamesByType.Store(t, names)
	return names
}

func jsonNames(t reflect.Type) (names []string) {
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[unstructured.Unstructured]() {
		return nil
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Type == reflect.TypeFor[metav1.TypeMeta]():
			name = ""
		case name == "" || name == "-" || !field.IsExported():
			return nil
		}
		names = append(names, name)
	}
	return names
}

// withoutManagedFields returns the object. If it has managed fields, it returns a shallow copy without them. It does not change the object.
func withoutManagedFields(obj client.Object) client.Object {
	if len(obj.GetManagedFields()) == 0 {
		return obj
	}
	copied := ShallowCopy(obj)
	copied.SetManagedFields(nil)
	return copied
}

// ShallowCopy returns a copy of an object of a Go type. The copy shares its maps, slices and pointers with the object.
func ShallowCopy(obj client.Object) client.Object {
	shallow := reflect.New(reflect.TypeOf(obj).Elem())
	shallow.Elem().Set(reflect.ValueOf(obj).Elem())
	return shallow.Interface().(client.Object)
}

// JSONTypedContent returns the JSON form of an object with the types of decoded JSON. For example, it converts an int of a handler to an
// int64, and a []string to a []any. It fails for values that are not valid JSON.
func JSONTypedContent(obj client.Object) (map[string]any, error) {
	content, err := Content(obj)
	if _, untyped := obj.(*unstructured.Unstructured); err != nil || !untyped { // the converter of Go types returns types of decoded JSON
		return content, err
	}
	normal, err := normalize(content)
	if err != nil {
		return nil, err
	}
	return normal.(map[string]any), nil
}

func normalize(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case nil, string, bool, int64, float64:
		return v, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			if out[key], err = normalize(inner); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			if out[i], err = normalize(inner); err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return out, nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out any
	if err := utiljson.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	return out, nil
}

// FromContent sets an object from its JSON form. It does not change the JSON form.
func FromContent(content map[string]any, into client.Object) error {
	if u, ok := into.(*unstructured.Unstructured); ok {
		u.Object = runtime.DeepCopyJSON(content)
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, into)
}
