package conditions

import (
	"reflect"
	"strings"
)

// A place is a field of a Go value, by the names that lead to it in JSON.
type place struct {
	root reflect.Value
	path []string
}

// find returns the field, if no pointer on the way is nil.
func (p place) find() (reflect.Value, bool) {
	v := p.root
	for _, name := range p.path {
		if v = reflect.Indirect(v); !v.IsValid() {
			return v, false
		}
		v = v.FieldByIndex(indexOf(v.Type(), name))
	}
	return v, true
}

// make returns the field, and fills in what is missing on the way.
func (p place) make() reflect.Value {
	v := p.root
	for _, name := range p.path {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.FieldByIndex(indexOf(v.Type(), name))
	}
	return v
}

func typeAt(t reflect.Type, path []string) (reflect.Type, bool) {
	for _, name := range path {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return nil, false
		}
		index := indexOf(t, name)
		if index == nil {
			return nil, false
		}
		t = t.FieldByIndex(index).Type
	}
	return t, true
}

// indexOf finds an exported field by its name in JSON, in embedded structs too if they are inlined.
func indexOf(t reflect.Type, name string) []int {
	var inlined []int
	for i := range t.NumField() {
		field := t.Field(i)
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag == name && field.IsExported() {
			return field.Index
		}
		if field.Anonymous && tag == "" && field.Type.Kind() == reflect.Struct && inlined == nil {
			if rest := indexOf(field.Type, name); rest != nil {
				inlined = append([]int{i}, rest...)
			}
		}
	}
	return inlined
}
