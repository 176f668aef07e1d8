package conditions

import (
	"reflect"
	"strings"
)

// A typedField is a field of a Go value, identified by its JSON path.
type typedField struct {
	root reflect.Value
	path []string
}

// lookup returns the field, or false if a pointer in the path is nil.
func (p typedField) lookup() (reflect.Value, bool) {
	v := p.root
	for _, name := range p.path {
		if v = reflect.Indirect(v); !v.IsValid() {
			return v, false
		}
		v = v.FieldByIndex(indexOf(v.Type(), name))
	}
	return v, true
}

// create returns the field, and allocates nil pointers on the way.
func (p typedField) create() reflect.Value {
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

// indexOf finds the exported field with a JSON name, even in inlined embedded structs.
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
