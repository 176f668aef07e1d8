package conditions

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// typedFields returns the conditions in a field of a Go type. It must be a list of [metav1.Condition], or a list or map of structs with at
// least a status. In a list, they also need a type.
func typedFields(obj client.Object, path []string) (Fields, error) {
	root := reflect.ValueOf(obj)
	name := strings.Join(path, ".")
	t, ok := typeAt(root.Type(), path)
	if !ok {
		return nil, fmt.Errorf("type %T has no field %s: add the field, or set its place with At or Using", obj, name)
	}
	p := typedField{root, path}
	list := t.Kind() == reflect.Slice
	if !list && (t.Kind() != reflect.Map || t.Key().Kind() != reflect.String) {
		return nil, fmt.Errorf("%s of %T is a %s, not a list or map of conditions: set their place with At or Using", name, obj, t)
	}
	if t == reflect.TypeFor[[]metav1.Condition]() {
		return standardList{p}, nil
	}
	element := entryType(t.Elem())
	if !hasText(element, "status") || list && !hasText(element, "type") {
		return nil, fmt.Errorf("elements of %s of %T have the type %s, which lacks the fields of a condition: use an adapter with Using",
			name, obj, t.Elem())
	}
	if list {
		return typedList{p}, nil
	}
	return typedMap{p}, nil
}

// entryType returns the struct type of an element, which may be a pointer.
func entryType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func hasText(t reflect.Type, name string) bool {
	at, ok := typeAt(t, []string{name})
	return ok && at.Kind() == reflect.String
}

// A standardList is a list of [metav1.Condition].
type standardList struct{ typedField }

func (u standardList) List() []metav1.Condition {
	v, ok := u.lookup()
	if !ok {
		return nil
	}
	return slices.Clone(v.Interface().([]metav1.Condition))
}

func (u standardList) Put(c metav1.Condition) { put(u.pointer(), c) }

func (u standardList) Remove(conditionType string) {
	if _, ok := u.lookup(); ok {
		meta.RemoveStatusCondition(u.pointer(), conditionType)
	}
}

func (u standardList) pointer() *[]metav1.Condition {
	return u.create().Addr().Interface().(*[]metav1.Condition)
}

// A typedList is a list of other structs, as in deployments, nodes, pods and jobs.
type typedList struct{ typedField }

func (l typedList) List() (list []metav1.Condition) {
	for _, e := range l.entries() {
		if e.IsValid() {
			list = append(list, entry{e}.read())
		}
	}
	return list
}

// entries returns the structs of the list. A null entry is an invalid value.
func (l typedList) entries() (entries []reflect.Value) {
	if v, ok := l.lookup(); ok {
		for i := range v.Len() {
			entries = append(entries, reflect.Indirect(v.Index(i)))
		}
	}
	return entries
}

func (l typedList) Put(c metav1.Condition) {
	for _, e := range l.entries() {
		if e.IsValid() && (entry{e}).text("type") == c.Type {
			entry{e}.write(c)
			return
		}
	}
	v := l.create()
	v.Set(reflect.Append(v, newElement(v.Type().Elem(), c)))
}

func (l typedList) Remove(conditionType string) {
	v, ok := l.lookup()
	if !ok {
		return
	}
	remaining := reflect.MakeSlice(v.Type(), 0, v.Len())
	for i, e := range l.entries() {
		if !e.IsValid() || (entry{e}).text("type") != conditionType {
			remaining = reflect.Append(remaining, v.Index(i))
		}
	}
	if remaining.Len() < v.Len() {
		v.Set(remaining)
	}
}

func newElement(t reflect.Type, c metav1.Condition) reflect.Value {
	e := reflect.New(entryType(t))
	entry{e.Elem()}.write(c)
	if t.Kind() == reflect.Pointer {
		return e
	}
	return e.Elem()
}

// A typedMap is a map from types to structs.
type typedMap struct{ typedField }

func (m typedMap) List() (list []metav1.Condition) {
	v, ok := m.lookup()
	if !ok {
		return nil
	}
	byType := map[string]metav1.Condition{}
	for keys := v.MapRange(); keys.Next(); {
		if e := reflect.Indirect(keys.Value()); e.IsValid() {
			c := entry{e}.read()
			c.Type = keys.Key().String()
			byType[c.Type] = c
		}
	}
	for _, conditionType := range slices.Sorted(maps.Keys(byType)) {
		list = append(list, byType[conditionType])
	}
	return list
}

func (m typedMap) Put(c metav1.Condition) {
	v := m.create()
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	key := reflect.ValueOf(c.Type).Convert(v.Type().Key())
	t := v.Type().Elem()
	e := reflect.New(entryType(t)).Elem() // map elements aren't addressable
	if old := v.MapIndex(key); old.IsValid() && reflect.Indirect(old).IsValid() {
		e.Set(reflect.Indirect(old))
	}
	entry{e}.write(c)
	if t.Kind() == reflect.Pointer {
		e = e.Addr()
	}
	v.SetMapIndex(key, e)
}

func (m typedMap) Remove(conditionType string) {
	if v, ok := m.lookup(); ok && !v.IsNil() {
		v.SetMapIndex(reflect.ValueOf(conditionType).Convert(v.Type().Key()), reflect.Value{})
	}
}
