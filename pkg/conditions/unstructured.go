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

// unstructuredFields returns the conditions of an unstructured object, as a list or a map. It preserves invalid entries.
func unstructuredFields(obj *unstructured.Unstructured, path []string, asMap bool) (Fields, error) {
	p := unstructuredField{obj, path}
	var value any = obj.Object
	for i, name := range path {
		parent, ok := value.(map[string]any)
		if !ok && value != nil {
			return nil, fmt.Errorf("%s must be an object, got %T: fix it, or set the place of the conditions with At or Using",
				strings.Join(path[:i], "."), value)
		}
		value = parent[name]
	}
	switch value.(type) {
	case nil:
		if asMap {
			return unstructuredMap{p}, nil
		}
		return unstructuredList{p}, nil
	case []any:
		return unstructuredList{p}, nil
	case map[string]any:
		return unstructuredMap{p}, nil
	default:
		return nil, fmt.Errorf("%s must be a list or a map, got %T: fix it, or set the place of the conditions with At or Using",
			strings.Join(path, "."), value)
	}
}

// An unstructuredField is a field of an unstructured object.
type unstructuredField struct {
	obj  *unstructured.Unstructured
	path []string
}

func (s unstructuredField) get() any {
	value, _, _ := unstructured.NestedFieldNoCopy(s.obj.Object, s.path...)
	return value
}

func (s unstructuredField) set(value any) {
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

type unstructuredList struct{ unstructuredField }

func (l unstructuredList) items() []any {
	items, _ := l.get().([]any)
	return items
}

func (l unstructuredList) List() (list []metav1.Condition) {
	for _, item := range l.items() {
		if e, ok := item.(map[string]any); ok && typeOf(e) != "" {
			list = append(list, unstructuredEntry(e).read())
		}
	}
	return list
}

func (l unstructuredList) Put(c metav1.Condition) {
	items := l.items()
	for _, item := range items {
		if e, ok := item.(map[string]any); ok && typeOf(e) == c.Type {
			unstructuredEntry(e).write(c)
			return
		}
	}
	e := map[string]any{"type": c.Type}
	unstructuredEntry(e).write(c)
	l.set(append(slices.Clip(items), e))
}

func (l unstructuredList) Remove(conditionType string) {
	items := l.items()
	remaining := slices.DeleteFunc(slices.Clone(items), func(item any) bool {
		e, ok := item.(map[string]any)
		return ok && typeOf(e) == conditionType
	})
	if len(remaining) < len(items) {
		l.set(remaining)
	}
}

func typeOf(e map[string]any) string {
	conditionType, _ := e["type"].(string)
	return conditionType
}

// An unstructuredMap is a map from types to conditions.
type unstructuredMap struct{ unstructuredField }

func (m unstructuredMap) items() map[string]any {
	items, _ := m.get().(map[string]any)
	return items
}

func (m unstructuredMap) List() (list []metav1.Condition) {
	items := m.items()
	for _, conditionType := range slices.Sorted(maps.Keys(items)) {
		if e, ok := items[conditionType].(map[string]any); ok && e != nil {
			c := unstructuredEntry(e).read()
			c.Type = conditionType
			list = append(list, c)
		}
	}
	return list
}

func (m unstructuredMap) Put(c metav1.Condition) {
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
	unstructuredEntry(e).write(c)
}

func (m unstructuredMap) Remove(conditionType string) { delete(m.items(), conditionType) }

// An unstructuredEntry is one condition in JSON. Unchanged fields keep their exact form, such as the format of a time.
type unstructuredEntry map[string]any

func (e unstructuredEntry) read() metav1.Condition {
	text := func(name string) string { s, _ := e[name].(string); return s }
	c := metav1.Condition{
		Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message"),
	}
	switch n := e["observedGeneration"].(type) {
	case int64:
		c.ObservedGeneration = n
	case float64:
		c.ObservedGeneration = int64(n)
	case int: // not from a JSON decoder, but Go code can set it
		c.ObservedGeneration = int64(n)
	}
	if at, err := time.Parse(time.RFC3339, text("lastTransitionTime")); err == nil {
		c.LastTransitionTime = metav1.NewTime(at)
	}
	return c
}

func (e unstructuredEntry) write(c metav1.Condition) {
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
