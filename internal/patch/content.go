package patch

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Content returns an object in its JSON form. For an unstructured object, this is its content and not a copy. For a Go type, managed fields
// are left out, because converting them is expensive and the engine doesn't use them.
func Content(obj client.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	return Converted{}.convert(obj)
}

// Converted is an object together with its JSON form, which is nil if it isn't known. The methods change neither of them.
type Converted struct {
	Object  client.Object
	Content map[string]any
}

// ContentOf returns a different state of the object in its JSON form, like [Content]. Top-level fields that have not changed are not
// converted, but share the known values.
func (known Converted) ContentOf(obj client.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	return known.convert(obj)
}

// JSONTypedContentOf returns a different state of the object in its JSON form, like [JSONTypedContent]. Top-level fields that have not
// changed are not converted, but share the known values. If no field has changed, it returns the known JSON form itself.
func (known Converted) JSONTypedContentOf(obj client.Object) (map[string]any, error) {
	switch {
	case fieldsOf(obj) != nil:
		return known.convert(obj) // the converter returns the types of decoded JSON
	case known.Content != nil && reflect.DeepEqual(known.Object, obj):
		return known.Content, nil
	}
	return JSONTypedContent(obj)
}

// convert returns an object of a Go type in its JSON form. It converts only fields that differ from the known state, and one by one where
// possible, because the converter needs much memory for empty fields.
func (known Converted) convert(obj client.Object) (map[string]any, error) {
	fields := fieldsOf(obj)
	if fields == nil {
		return runtime.DefaultUnstructuredConverter.ToUnstructured(withoutManagedFields(obj))
	}
	value, before := reflect.ValueOf(obj).Elem(), reflect.Value{}
	if known.Content != nil && reflect.TypeOf(known.Object) == reflect.TypeOf(obj) {
		before = reflect.ValueOf(known.Object).Elem()
	}
	out, changed := make(map[string]any, len(fields)+1), !before.IsValid()
	var others []field
	for _, f := range fields {
		current := value.Field(f.index).Addr().Interface()
		if kind, ok := current.(*metav1.TypeMeta); ok {
			setText(out, known.Content, "apiVersion", kind.APIVersion)
			setText(out, known.Content, "kind", kind.Kind)
			continue
		}
		if before.IsValid() && equalFields(before.Field(f.index), value.Field(f.index)) {
			if content, ok := known.Content[f.name]; ok {
				out[f.name] = content
			}
			continue
		}
		changed = true
		var err error
		switch meta, isMeta := current.(*metav1.ObjectMeta); {
		case f.isStruct && f.omitZero && value.Field(f.index).IsZero():
		case isMeta:
			out[f.name] = known.metadataContent(meta, before, f)
		case f.isStruct:
			out[f.name], err = runtime.DefaultUnstructuredConverter.ToUnstructured(current)
		default:
			others = append(others, f)
		}
		if err != nil {
			return nil, err
		}
	}
	if !changed {
		return known.Content, nil
	}
	return out, convertOthers(obj, others, out)
}

// equalFields reports whether two values of a field have the same JSON form. They must be addressable and of the same type.
func equalFields(a, b reflect.Value) bool {
	if meta, ok := reflect.TypeAssert[*metav1.ObjectMeta](a.Addr()); ok {
		other, _ := reflect.TypeAssert[*metav1.ObjectMeta](b.Addr())
		return equalMetadata(meta, other)
	}
	return equalValues(a, b)
}

// equalValues is reflect.DeepEqual for addressable values of the same type, but doesn't allocate memory for string maps.
func equalValues(a, b reflect.Value) bool {
	if texts, ok := reflect.TypeAssert[*map[string]string](a.Addr()); ok {
		others, _ := reflect.TypeAssert[*map[string]string](b.Addr())
		return (*texts == nil) == (*others == nil) && maps.Equal(*texts, *others)
	}
	if a.Kind() != reflect.Struct {
		return reflect.DeepEqual(a.Addr().Interface(), b.Addr().Interface())
	}
	for i := range a.NumField() {
		if !a.Field(i).CanInterface() { // the field is not exported
			return reflect.DeepEqual(a.Addr().Interface(), b.Addr().Interface())
		}
		if !equalValues(a.Field(i), b.Field(i)) {
			return false
		}
	}
	return true
}

// metadataContent returns metadata in its JSON form. before is the known object. It is invalid if the object isn't known or has a different
// type.
func (known Converted) metadataContent(meta *metav1.ObjectMeta, before reflect.Value, f field) map[string]any {
	content, ok := known.Content[f.name].(map[string]any)
	if !ok || !before.IsValid() {
		return metadataContent(meta, &metav1.ObjectMeta{}, nil)
	}
	knownMeta, _ := reflect.TypeAssert[*metav1.ObjectMeta](before.Field(f.index).Addr())
	return metadataContent(meta, knownMeta, content)
}

// convertOthers adds the JSON forms of fields that can only be converted along with their object.
func convertOthers(obj client.Object, fields []field, out map[string]any) error {
	if len(fields) == 0 {
		return nil
	}
	alone := reflect.New(reflect.TypeOf(obj).Elem())
	for _, f := range fields {
		alone.Elem().Field(f.index).Set(reflect.ValueOf(obj).Elem().Field(f.index))
	}
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(withoutManagedFields(alone.Interface().(client.Object)))
	if err != nil { // some types cannot convert their zero value
		if converted, err = runtime.DefaultUnstructuredConverter.ToUnstructured(withoutManagedFields(obj)); err != nil {
			return err
		}
	}
	for _, f := range fields {
		if content, ok := converted[f.name]; ok {
			out[f.name] = content
		}
	}
	return nil
}

// Decode fills an empty object from a JSON form that differs from the known one only in top-level fields that a patch changes. For a Go
// type, it decodes only these fields and shares the rest with the known object.
func (known Converted) Decode(content map[string]any, changes MergePatch, into client.Object) error {
	fields := fieldsOf(known.Object)
	if fields == nil || reflect.TypeOf(known.Object) != reflect.TypeOf(into) {
		return FromContent(content, into)
	}
	changed := make(map[string]any, len(changes))
	for name := range changes {
		if value, ok := content[name]; ok {
			changed[name] = value
		}
	}
	if err := FromContent(changed, into); err != nil {
		return err
	}
	from, target := reflect.ValueOf(known.Object).Elem(), reflect.ValueOf(into).Elem()
	for _, f := range fields {
		if _, decoded := changes[f.name]; !decoded {
			target.Field(f.index).Set(from.Field(f.index))
		}
	}
	return nil
}

// field is a top-level field of a Go type.
type field struct {
	index    int
	name     string // the JSON name; "" for metav1.TypeMeta
	isStruct bool   // the field can be converted on its own
	omitZero bool   // a zero value is left out of the object's JSON form
}

var fieldsByType sync.Map // from reflect.Type to []field

// fieldsOf returns the top-level fields of an object's Go type. It returns nil for unstructured objects, and for types with custom
// encoding, with a pointer to the metadata, or with other fields that are inline or have no JSON name.
func fieldsOf(obj client.Object) []field {
	t := reflect.TypeOf(obj).Elem()
	if known, ok := fieldsByType.Load(t); ok {
		return known.([]field)
	}
	fields := readFields(t)
	fieldsByType.Store(t, fields)
	return fields
}

func readFields(t reflect.Type) (fields []field) {
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[unstructured.Unstructured]() || hasEncoding(t) {
		return nil
	}
	for i := range t.NumField() {
		declared := t.Field(i)
		name, options, _ := strings.Cut(declared.Tag.Get("json"), ",")
		f := field{
			index: i, name: name, isStruct: declared.Type.Kind() == reflect.Struct && !hasEncoding(declared.Type),
			omitZero: slices.Contains(strings.Split(options, ","), "omitzero"),
		}
		switch {
		case declared.Type == reflect.TypeFor[metav1.TypeMeta]():
			f.name = ""
		case name == "" || name == "-" || !declared.IsExported() || declared.Type == reflect.TypeFor[*metav1.ObjectMeta]():
			return nil
		}
		fields = append(fields, f)
	}
	return fields
}

// hasEncoding reports whether a type has methods that determine its JSON form.
func hasEncoding(t reflect.Type) bool {
	return slices.ContainsFunc([]reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler](),
		reflect.TypeFor[interface{ ToUnstructured() any }](), reflect.TypeFor[interface{ IsZero() bool }](),
	}, reflect.PointerTo(t).Implements)
}

// withoutManagedFields returns the object, or a copy if it has managed fields to leave out. It never changes the object.
func withoutManagedFields(obj client.Object) client.Object {
	if len(obj.GetManagedFields()) == 0 {
		return obj
	}
	copied := ShallowCopy(obj)
	if fieldsOf(obj) == nil { // the metadata may be shared
		copied = obj.DeepCopyObject().(client.Object)
	}
	copied.SetManagedFields(nil)
	return copied
}

// DeepCopy returns a deep copy of an object. For a Go type, the copy shares the JSON texts in the managed fields, because they are large
// and clients only ever replace them.
func DeepCopy(obj client.Object) client.Object {
	managed := obj.GetManagedFields()
	if len(managed) == 0 || fieldsOf(obj) == nil {
		return obj.DeepCopyObject().(client.Object)
	}
	copied := withoutManagedFields(obj).DeepCopyObject().(client.Object)
	copied.SetManagedFields(slices.Clone(managed))
	return copied
}

// ShallowCopy copies an object of a Go type. The copy shares maps, slices and pointers with it.
func ShallowCopy(obj client.Object) client.Object {
	shallow := reflect.New(reflect.TypeOf(obj).Elem())
	shallow.Elem().Set(reflect.ValueOf(obj).Elem())
	return shallow.Interface().(client.Object)
}

// JSONTypedContent returns an object in its JSON form, with the types that decoded JSON has. For example, a handler's int becomes an int64,
// and a []string becomes a []any. It fails for values that are not valid JSON.
func JSONTypedContent(obj client.Object) (map[string]any, error) {
	content, err := Content(obj)
	if _, untyped := obj.(*unstructured.Unstructured); err != nil || !untyped { // the converter for Go types already returns such types
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

// FromContent sets an object from its JSON form, which it doesn't change.
func FromContent(content map[string]any, into client.Object) error {
	if u, ok := into.(*unstructured.Unstructured); ok {
		u.Object = runtime.DeepCopyJSON(content)
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, into)
}
