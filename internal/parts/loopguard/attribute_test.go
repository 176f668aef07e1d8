package loopguard_test

import (
	"fmt"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/loopguard"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

func TestAttribute(t *testing.T) {
	a := func(fields m) loopguard.Write { return loopguard.Write{Handler: "a", Fields: fields} }
	b := func(fields m) loopguard.Write { return loopguard.Write{Handler: "b", Fields: fields} }
	for _, test := range []struct {
		name     string
		old, new m
		writes   []loopguard.Write
		fields   string
		own      bool
	}{
		{"no change", m{"x": 1}, m{"x": 1}, []loopguard.Write{a(m{"x": 1})}, "", false},
		{"no write", m{"x": 1}, m{"x": 2}, nil, "", false},
		{"the value of a handler", m{"x": 1}, m{"x": 2}, []loopguard.Write{a(m{"x": 2})}, "x [a]", true},
		{"the value of another client", m{"x": 1}, m{"x": 3}, []loopguard.Write{a(m{"x": 2})}, "", false},
		{"numbers of other types", m{"x": 1}, m{"x": int64(2)}, []loopguard.Write{a(m{"x": 2.0})}, "x [a]", true},
		{"the field of another client as well", m{"x": 1}, m{"x": 2, "y": 1}, []loopguard.Write{a(m{"x": 2})}, "x [a]", false},
		{"two handlers", m{"x": 1, "y": 1}, m{"x": 2, "y": 2}, []loopguard.Write{b(m{"x": 2}), a(m{"y": 2})}, "x [b], y [a]", true},
		{"two handlers with the same value", m{"x": 1}, m{"x": 2}, []loopguard.Write{b(m{"x": 2}), a(m{"x": 2})}, "x [a b]", true},
		{"two handlers with other values", m{"x": 1}, m{"x": 2}, []loopguard.Write{b(m{"x": 3}), a(m{"x": 2})}, "x [a]", true},
		{"a new map by two handlers", m{}, m{"m": m{"x": 1, "y": 2}}, []loopguard.Write{a(m{"m": m{"x": 1}}), b(m{"m": m{"y": 2}})}, "m.x [a], m.y [b]", true},
		{"a new map by a handler and another client", m{}, m{"m": m{"x": 1, "y": 2}}, []loopguard.Write{a(m{"m": m{"x": 1}})}, "m.x [a]", false},
		{"an empty map", m{}, m{"m": m{}}, []loopguard.Write{a(m{"m": m{}})}, "m [a]", true},
		{"a list", m{"l": []any{1}}, m{"l": []any{1, 2}}, []loopguard.Write{a(m{"l": []any{1, 2}})}, "l [a]", true},
		{"a list with an item of another client", m{"l": []any{1}}, m{"l": []any{1, 2, 3}}, []loopguard.Write{a(m{"l": []any{1, 2}})}, "", false},
		{"a removed field", m{"x": 1}, m{}, []loopguard.Write{a(m{"x": nil})}, "x [a]", true},
		{"a field that another client has removed", m{"x": 1}, m{}, []loopguard.Write{a(m{"y": nil})}, "", false},
		{"a field that another client has removed after the write", m{"x": 1}, m{}, []loopguard.Write{a(m{"x": 2})}, "", false},
		{"a removed map", m{"m": m{"x": 1}}, m{"m": m{}}, []loopguard.Write{a(m{"m": nil})}, "m.x [a]", true},
		{"a map instead of a value", m{"x": 1}, m{"x": m{"y": 1}}, []loopguard.Write{a(m{"x": m{"y": 1}})}, "x.y [a]", true},
		{"a value instead of a map", m{"x": m{"y": 1}}, m{"x": 1}, []loopguard.Write{a(m{"x": 1})}, "x [a]", true},
		{"a removed value below a value", m{"x": m{"y": 1, "z": 1}}, m{"x": m{"z": 1}}, []loopguard.Write{a(m{"x": "text"})}, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			fields, own := loopguard.Attribute(diff.Of(test.old, test.new), test.writes)
			text := ""
			for i, field := range fields {
				if i > 0 {
					text += ", "
				}
				text += fmt.Sprintf("%s %v", field.Field, field.Handlers)
			}
			if text != test.fields || own != test.own {
				t.Errorf("%q, own %v, want %q, %v", text, own, test.fields, test.own)
			}
		})
	}
}
