package progress

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An objectField is a place on objects outside of their annotations, a dotted path such as
// "status.kopf.progress". It is read and written in the JSON form of the object: an unstructured one
// has it itself, one of a Go type is converted to it and back.
//
// An object of a Go type has the field only if its type does: otherwise decoding has dropped it,
// there is nothing to read, and nothing that could be removed.
type objectField string

func (f objectField) path(below ...string) []string {
	return append(strings.Split(string(f), "."), below...)
}

// check says whether state can be kept in the field.
func (f objectField) check() error {
	path := f.path()
	if len(path) < 2 || slices.Contains(path, "") || slices.Contains([]string{"metadata", "kind", "apiVersion"}, path[0]) {
		return fmt.Errorf("nothing can be kept in the field %q: name one below the status, such as \"status.my-operator.progress\"", f)
	}
	return nil
}

// read returns what stands in the field, or below it; nil if nothing does. It is not a copy.
func (f objectField) read(obj client.Object, below ...string) (any, error) {
	content, err := f.content(obj)
	if err != nil {
		return nil, err
	}
	value, _, err := unstructured.NestedFieldNoCopy(content, f.path(below...)...)
	if err != nil {
		return nil, nil //nolint:nilerr // an object of another shape has no such field
	}
	return value, nil
}

// write puts a value into the field, or below it.
func (f objectField) write(obj client.Object, value any, below ...string) error {
	if err := checkType(obj, string(f)); err != nil {
		return err
	}
	content, err := f.content(obj)
	if err != nil {
		return err
	}
	if content, err = with(content, f.path(below...), value); err != nil {
		return err
	}
	return f.replace(obj, content)
}

// remove takes what is below the field, by its keys, off the object. The field itself stays: its
// parents may be in use by others.
func (f objectField) remove(obj client.Object, keys ...string) error {
	content, err := f.content(obj)
	if err != nil {
		return err
	}
	var removed bool
	for _, key := range keys {
		lacking, found := without(content, f.path(key), false)
		content, removed = lacking, removed || found
	}
	if !removed {
		return nil
	}
	return f.replace(obj, content)
}

// clear removes the field from an essence, and the parents that are empty then.
func (f objectField) clear(essence map[string]any) { clearField(essence, f.path()) }

func clearField(essence map[string]any, path []string) {
	// Only the outermost map is ours to change: an essence shares its values with the object.
	lacking, _ := without(essence, path, true)
	if value, ok := lacking[path[0]]; ok {
		essence[path[0]] = value
	} else {
		delete(essence, path[0])
	}
}

// content is the object in its JSON form: its own for an unstructured one, a converted copy for a
// Go type that has the field, nothing for one that does not.
func (f objectField) content(obj client.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	if path := f.path(); fitting(reflect.TypeOf(obj), path) < len(path) {
		return nil, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, &UnreadableError{Place: string(f), Err: err}
	}
	return content, nil
}

// replace gives the object another content.
func (f objectField) replace(obj client.Object, content map[string]any) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.Object = content
		return nil
	}
	// A conversion merges into what is there: begin with an empty object, so that removed keys are gone.
	fresh := reflect.New(reflect.TypeOf(obj).Elem())
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, fresh.Interface()); err != nil {
		return fmt.Errorf("%s does not fit the Go type %T: %w", f, obj, err)
	}
	reflect.ValueOf(obj).Elem().Set(fresh.Elem())
	return nil
}

// with returns a copy of the content that has the value in a field. What else is in it is shared.
func with(content map[string]any, path []string, value any) (map[string]any, error) {
	out := maps.Clone(content)
	if out == nil {
		out = map[string]any{}
	}
	key := path[0]
	if len(path) == 1 {
		out[key] = value
		return out, nil
	}
	inner, isMap := out[key].(map[string]any)
	if !isMap && out[key] != nil {
		return nil, errors.New(key + ": another value stands where fields are expected")
	}
	inner, err := with(inner, path[1:], value)
	if err != nil {
		return nil, fmt.Errorf("%s.%w", key, err)
	}
	out[key] = inner
	return out, nil
}

// without returns a copy of the content that lacks a field, and whether there was anything to leave
// out. What else is in it is shared. A tidy one lacks the empty parents of the field, too.
func without(content map[string]any, path []string, tidy bool) (lacking map[string]any, found bool) {
	key := path[0]
	value, ok := content[key]
	inner, isMap := value.(map[string]any)
	if !ok || len(path) > 1 && !isMap {
		return content, false
	}
	out := maps.Clone(content)
	if len(path) == 1 {
		delete(out, key)
		return out, true
	}
	inner, found = without(inner, path[1:], tidy)
	out[key] = inner
	if tidy && len(inner) == 0 {
		delete(out, key)
		found = true
	}
	return out, found
}
