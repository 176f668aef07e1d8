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

// typedFields finds the field of a Go type by its names in JSON, and takes it as what it is: a list of
// conditions as usual, or a list or a map of structs that have at least a status.
func typedFields(obj client.Object, path []string) (Fields, error) {
	root := reflect.ValueOf(obj)
	name := strings.Join(path, ".")
	t, ok := typeAt(root.Type(), path)
	if !ok {
		return nil, fmt.Errorf("%T has no field %s: add it, or say with At or Using where its conditions are", obj, name)
	}
	p := place{root, path}
	list := t.Kind() == reflect.Slice
	if !list && (t.Kind() != reflect.Map || t.Key().Kind() != reflect.String) {
		return nil, fmt.Errorf("%s of %T is a %s, neither a list nor a map of conditions: say with At or Using where they are", name, obj, t)
	}
	if t == reflect.TypeFor[[]metav1.Condition]() {
		return usual{p}, nil
	}
	element := entryType(t.Elem())
	if !hasText(element, "status") || list && !hasText(element, "type") {
		return nil, fmt.Errorf("the elements of %s of %T are of the type %s, which has not the fields of a condition: say with Using what they mean",
			name, obj, t.Elem())
	}
	if list {
		return typedList{p}, nil
	}
	return typedMap{p}, nil
}

// entryType is the struct that an element is or points to.
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

// usual are conditions as most kinds have them.
type usual struct{ place }

func (u usual) List() []metav1.Condition {
	v, ok := u.find()
	if !ok {
		return nil
	}
	return slices.Clone(v.Interface().([]metav1.Condition))
}

func (u usual) Put(c metav1.Condition) { put(u.pointer(), c) }

func (u usual) Remove(conditionType string) {
	if _, ok := u.find(); ok {
		meta.RemoveStatusCondition(u.pointer(), conditionType)
	}
}

func (u usual) pointer() *[]metav1.Condition {
	return u.make().Addr().Interface().(*[]metav1.Condition)
}

// typedList is a list of other structs: those of deployments, nodes, pods and jobs are such.
type typedList struct{ place }

func (l typedList) List() (list []metav1.Condition) {
	for _, e := range l.entries() {
		if e.IsValid() {
			list = append(list, entry{e}.read())
		}
	}
	return list
}

// entries are the structs of the list; a null entry is an invalid value.
func (l typedList) entries() (entries []reflect.Value) {
	if v, ok := l.find(); ok {
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
	v := l.make()
	v.Set(reflect.Append(v, newElement(v.Type().Elem(), c)))
}

func (l typedList) Remove(conditionType string) {
	v, ok := l.find()
	if !ok {
		return
	}
	kept := reflect.MakeSlice(v.Type(), 0, v.Len())
	for i, e := range l.entries() {
		if !e.IsValid() || (entry{e}).text("type") != conditionType {
			kept = reflect.Append(kept, v.Index(i))
		}
	}
	if kept.Len() < v.Len() {
		v.Set(kept)
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

// typedMap is a map from the types to structs.
type typedMap struct{ place }

func (m typedMap) List() (list []metav1.Condition) {
	v, ok := m.find()
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
	v := m.make()
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	key := reflect.ValueOf(c.Type).Convert(v.Type().Key())
	t := v.Type().Elem()
	e := reflect.New(entryType(t)).Elem() // what is in a map cannot be changed in place
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
	if v, ok := m.find(); ok && !v.IsNil() {
		v.SetMapIndex(reflect.ValueOf(conditionType).Convert(v.Type().Key()), reflect.Value{})
	}
}
