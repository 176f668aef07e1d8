package progress

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An objectField is the dotted path of a field, such as "status.kopf.progress". We read and write it in the JSON form of the object, so
// typed objects are converted to this form and back.
//
// If the Go type lacks the field, decoding has already dropped its value, so there is nothing to read or remove.
type objectField string

func (f objectField) path() []string { return strings.Split(string(f), ".") }

// check validates that records can be stored in the field.
func (f objectField) check() error {
	path := f.path()
	if len(path) < 2 || slices.Contains(path, "") || slices.Contains([]string{"metadata", "kind", "apiVersion"}, path[0]) {
		return fmt.Errorf("field %q cannot store records: use a field below the status, such as \"status.my-operator.progress\"", f)
	}
	return nil
}

// read returns the value of the field, not a copy of it; nil if there is none.
func (f objectField) read(obj client.Object) (any, error) {
	content, err := f.content(obj)
	if err != nil {
		return nil, err
	}
	return f.valueIn(content), nil
}

func (f objectField) valueIn(content map[string]any) any {
	var value any = content
	for key := range strings.SplitSeq(string(f), ".") {
		value = childOf(value, key)
	}
	return value
}

// childOf returns nil if the value isn't a JSON object or lacks the key.
func childOf(value any, key string) any {
	fields, _ := value.(map[string]any)
	return fields[key]
}

func (f objectField) write(obj client.Object, value any) error {
	if err := checkType(obj, string(f)); err != nil {
		return err
	}
	content, err := f.content(obj)
	if err != nil {
		return err
	}
	if content, err = setNested(content, f.path(), value); err != nil {
		return err
	}
	return f.replace(obj, content)
}

// A fieldChange sets a key below a field or, if the value is nil, removes it.
type fieldChange struct {
	key   string
	value any
}

// changeBelow sets and removes keys below the field. It keeps the field itself, even if it becomes empty.
func (f objectField) changeBelow(obj client.Object, changes []fieldChange) error {
	sets := slices.ContainsFunc(changes, func(c fieldChange) bool { return c.value != nil })
	if sets {
		if err := checkType(obj, string(f)); err != nil {
			return err
		}
	}
	content, err := f.content(obj)
	if err != nil {
		return err
	}
	value := f.valueIn(content)
	before, isMap := value.(map[string]any)
	switch {
	case !isMap && !sets:
		return nil // there is nothing to remove
	case !isMap && value != nil:
		return fmt.Errorf("%s: expected an object, found another value", f)
	}
	after := maps.Clone(before)
	if after == nil {
		after = map[string]any{}
	}
	removed := false
	for _, c := range changes {
		if c.value != nil {
			after[c.key] = c.value
		} else if _, found := after[c.key]; found {
			delete(after, c.key)
			removed = true
		}
	}
	if !sets && !removed {
		return nil
	}
	if content, err = setNested(content, f.path(), after); err != nil {
		return err
	}
	return f.replace(obj, content)
}

// clear removes the field from an essence, and each parent that is then empty.
func (f objectField) clear(essence map[string]any) {
	root, _, _ := strings.Cut(string(f), ".")
	if essence[root] != nil { // most objects don't have the field, so don't allocate the path
		clearField(essence, f.path())
	}
}

func clearField(essence map[string]any, path []string) {
	// Modify only the outermost map, because the essence shares its values with the object.
	out, _ := removeNested(essence, path)
	if value, ok := out[path[0]]; ok {
		essence[path[0]] = value
	} else {
		delete(essence, path[0])
	}
}

// content returns the JSON form of the object, or nil if the Go type lacks the field.
func (f objectField) content(obj client.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	if !f.existsIn(reflect.TypeOf(obj)) {
		return nil, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, &UnreadableError{Place: string(f), Err: err}
	}
	return content, nil
}

// knownFields caches the results of existsIn. It can't grow beyond the configured fields times the Go types.
var knownFields sync.Map // fieldOfType → bool

type fieldOfType struct {
	t     reflect.Type
	field objectField
}

func (f objectField) existsIn(t reflect.Type) bool {
	key := fieldOfType{t, f}
	if exists, known := knownFields.Load(key); known {
		return exists.(bool)
	}
	path := f.path()
	exists := typeDepth(t, path) == len(path)
	knownFields.Store(key, exists)
	return exists
}

func (f objectField) replace(obj client.Object, content map[string]any) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.Object = content
		return nil
	}
	// The conversion merges into existing values, so start with an empty object. Otherwise removed keys would stay.
	fresh := reflect.New(reflect.TypeOf(obj).Elem())
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, fresh.Interface()); err != nil {
		return fmt.Errorf("%s does not fit the Go type %T: %w", f, obj, err)
	}
	reflect.ValueOf(obj).Elem().Set(fresh.Elem())
	return nil
}

// setNested returns a copy of the content with the field set. The copy shares all other values.
func setNested(content map[string]any, path []string, value any) (map[string]any, error) {
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
		return nil, errors.New(key + ": expected an object, found another value")
	}
	inner, err := setNested(inner, path[1:], value)
	if err != nil {
		return nil, fmt.Errorf("%s.%w", key, err)
	}
	out[key] = inner
	return out, nil
}

// removeNested returns the content without a field and its empty parents, and whether it removed anything. It doesn't modify the content:
// if it removes something, it returns a copy that shares all other values.
func removeNested(content map[string]any, path []string) (out map[string]any, found bool) {
	key := path[0]
	value, ok := content[key]
	inner, isMap := value.(map[string]any)
	if !ok || len(path) > 1 && !isMap {
		return content, false
	}
	if len(path) > 1 {
		inner, found = removeNested(inner, path[1:])
		isEmpty := len(inner) == 0
		if !found && !isEmpty {
			return content, false
		}
		if !isEmpty {
			out = maps.Clone(content)
			out[key] = inner
			return out, true
		}
	}
	out = maps.Clone(content)
	delete(out, key)
	return out, true
}
