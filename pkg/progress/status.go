package progress

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// statusRecords reads and purges records under a field of the object's status, where operators
// before annotations kept them: one nested object for each id, which is not mangled.
//
// An object of a Go type has the field only if its type does: otherwise decoding has dropped it,
// there is nothing to read, and nothing that could be purged.
type statusRecords struct{ path []string }

func (s statusRecords) String() string { return strings.Join(s.path, ".") }

func (s statusRecords) Fetch(obj client.Object, id string) (*Record, error) {
	content, err := s.content(obj)
	if err != nil {
		return nil, err
	}
	value, ok, err := unstructured.NestedFieldNoCopy(content, append(s.path, id)...)
	if err != nil || !ok || value == nil {
		return nil, nil //nolint:nilerr // a status of another shape holds no records
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, &UnreadableError{Place: s.String() + "." + id, Err: err}
	}
	record, err := decodeRecord(text)
	if err != nil {
		return nil, &UnreadableError{Place: s.String() + "." + id, Err: err}
	}
	return record, nil
}

func (s statusRecords) Purge(obj client.Object, id string) error {
	content, err := s.content(obj)
	if err != nil {
		return err
	}
	field := append(s.path, id)
	if _, ok, err := unstructured.NestedFieldNoCopy(content, field...); err != nil || !ok {
		return nil //nolint:nilerr // a status of another shape holds no records
	}
	unstructured.RemoveNestedField(content, field...)
	if _, ok := obj.(*unstructured.Unstructured); ok {
		return nil
	}
	// A conversion merges into what is there: begin with an empty object, so that the key is gone.
	fresh := reflect.New(reflect.TypeOf(obj).Elem())
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, fresh.Interface()); err != nil {
		return fmt.Errorf("purging %s.%s: %w", s, id, err)
	}
	reflect.ValueOf(obj).Elem().Set(fresh.Elem())
	return nil
}

func (s statusRecords) Clear(essence map[string]any) {
	unstructured.RemoveNestedField(essence, s.path...)
	for parent := s.path[:len(s.path)-1]; len(parent) > 0; parent = parent[:len(parent)-1] {
		if fields, ok, err := unstructured.NestedFieldNoCopy(essence, parent...); err == nil && ok {
			if m, isMap := fields.(map[string]any); isMap && len(m) == 0 {
				unstructured.RemoveNestedField(essence, parent...)
			}
		}
	}
}

// content is the object in its JSON form: its own for an unstructured one, a converted copy for a
// Go type that has the field, nothing for one that does not.
func (s statusRecords) content(obj client.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	if !hasField(reflect.TypeOf(obj), s.path) {
		return nil, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, &UnreadableError{Place: s.String(), Err: err}
	}
	return content, nil
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// hasField reports whether the JSON form of a Go type can have a field at the path.
func hasField(t reflect.Type, path []string) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	freeform := t.Kind() == reflect.Map || t.Kind() == reflect.Interface ||
		t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
	if len(path) == 0 || freeform {
		return true
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == path[0] && hasField(field.Type, path[1:]) {
			return true
		}
		if field.Anonymous && name == "" && hasField(field.Type, path) {
			return true
		}
	}
	return false
}
