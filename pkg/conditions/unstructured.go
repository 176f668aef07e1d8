package conditions

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// unstructuredFields takes what is there for a list or a map. What is not understood in it is not touched.
func unstructuredFields(obj *unstructured.Unstructured, path []string, asMap bool) (Fields, error) {
	p := spot{obj, path}
	var value any = obj.Object
	for i, name := range path {
		parent, ok := value.(map[string]any)
		if !ok && value != nil {
			return nil, fmt.Errorf("%s is no object but a %T: correct it, or say with At or Using where the conditions are",
				strings.Join(path[:i], "."), value)
		}
		value = parent[name]
	}
	switch value.(type) {
	case nil:
		if asMap {
			return looseMap{p}, nil
		}
		return looseList{p}, nil
	case []any:
		return looseList{p}, nil
	case map[string]any:
		return looseMap{p}, nil
	default:
		return nil, fmt.Errorf("%s is neither a list nor a map, but a %T: correct it, or say with At or Using where the conditions are",
			strings.Join(path, "."), value)
	}
}

// A spot is a field of an unstructured object.
type spot struct {
	obj  *unstructured.Unstructured
	path []string
}

func (s spot) get() any {
	value, _, _ := unstructured.NestedFieldNoCopy(s.obj.Object, s.path...)
	return value
}

func (s spot) set(value any) {
	if s.obj.Object == nil {
		s.obj.Object = map[string]any{}
	}
	parent := s.obj.Object
	for _, name := range s.path[:len(s.path)-1] {
		child, _ := parent[name].(map[string]any)
		if child == nil {
			child = map[string]any{}
			parent[name] = child
		}
		parent = child
	}
	parent[s.path[len(s.path)-1]] = value
}

type looseList struct{ spot }

func (l looseList) items() []any {
	items, _ := l.get().([]any)
	return items
}

func (l looseList) List() (list []metav1.Condition) {
	for _, item := range l.items() {
		if e, ok := item.(map[string]any); ok && typeOf(e) != "" {
			list = append(list, looseEntry(e).read())
		}
	}
	return list
}

func (l looseList) Put(c metav1.Condition) {
	items := l.items()
	for _, item := range items {
		if e, ok := item.(map[string]any); ok && typeOf(e) == c.Type {
			looseEntry(e).write(c)
			return
		}
	}
	e := map[string]any{"type": c.Type}
	looseEntry(e).write(c)
	l.set(append(slices.Clip(items), e))
}

func (l looseList) Remove(conditionType string) {
	items := l.items()
	kept := slices.DeleteFunc(slices.Clone(items), func(item any) bool {
		e, ok := item.(map[string]any)
		return ok && typeOf(e) == conditionType
	})
	if len(kept) < len(items) {
		l.set(kept)
	}
}

func typeOf(e map[string]any) string {
	conditionType, _ := e["type"].(string)
	return conditionType
}

// looseMap is a map from the types to what else there is to say.
type looseMap struct{ spot }

func (m looseMap) items() map[string]any {
	items, _ := m.get().(map[string]any)
	return items
}

func (m looseMap) List() (list []metav1.Condition) {
	items := m.items()
	for _, conditionType := range slices.Sorted(maps.Keys(items)) {
		if e, ok := items[conditionType].(map[string]any); ok && e != nil {
			c := looseEntry(e).read()
			c.Type = conditionType
			list = append(list, c)
		}
	}
	return list
}

func (m looseMap) Put(c metav1.Condition) {
	items := m.items()
	if items == nil {
		items = map[string]any{}
		m.set(items)
	}
	e, _ := items[c.Type].(map[string]any)
	if e == nil {
		e = map[string]any{}
		items[c.Type] = e
	}
	looseEntry(e).write(c)
}

func (m looseMap) Remove(conditionType string) { delete(m.items(), conditionType) }

// A looseEntry is one condition in JSON. Fields that stay as they are keep their form, such as that of a time.
type looseEntry map[string]any

func (e looseEntry) read() metav1.Condition {
	text := func(name string) string { s, _ := e[name].(string); return s }
	c := metav1.Condition{
		Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message"),
	}
	switch n := e["observedGeneration"].(type) {
	case int64:
		c.ObservedGeneration = n
	case float64:
		c.ObservedGeneration = int64(n)
	case int: // written by hand: JSON has none
		c.ObservedGeneration = int64(n)
	}
	if at, err := time.Parse(time.RFC3339, text("lastTransitionTime")); err == nil {
		c.LastTransitionTime = metav1.NewTime(at)
	}
	return c
}

func (e looseEntry) write(c metav1.Condition) {
	old := e.read()
	e["status"], e["reason"], e["message"] = string(c.Status), c.Reason, c.Message
	switch {
	case c.ObservedGeneration == 0:
		delete(e, "observedGeneration")
	case c.ObservedGeneration != old.ObservedGeneration:
		e["observedGeneration"] = c.ObservedGeneration
	}
	if !c.LastTransitionTime.Equal(&old.LastTransitionTime) {
		e["lastTransitionTime"] = c.LastTransitionTime.UTC().Format(time.RFC3339)
	}
	if _, has := e["lastUpdateTime"]; has {
		e["lastUpdateTime"] = time.Now().UTC().Format(time.RFC3339)
	}
}
