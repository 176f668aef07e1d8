package patch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestApply(t *testing.T) {
	content := func() m {
		return m{"spec": m{"size": int64(1), "list": []any{"x", "y"}, "deep": m{"a": "b"}}, "kind": "Widget"}
	}
	tests := []struct {
		name string
		doc  Document
		want m
	}{
		{
			"PATCH-12 a null removes", Document{"spec": m{"size": nil}},
			m{"spec": m{"list": []any{"x", "y"}, "deep": m{"a": "b"}}, "kind": "Widget"},
		},
		{
			"PATCH-12 maps recurse", Document{"spec": m{"deep": m{"c": "d"}}},
			m{"spec": m{"size": int64(1), "list": []any{"x", "y"}, "deep": m{"a": "b", "c": "d"}}, "kind": "Widget"},
		},
		{
			"PATCH-12 lists are replaced", Document{"spec": m{"list": []any{"z"}}},
			m{"spec": m{"size": int64(1), "list": []any{"z"}, "deep": m{"a": "b"}}, "kind": "Widget"},
		},
		{
			"PATCH-12 a map that has become empty stays, as on the server", Document{"spec": m{"deep": m{"a": nil}}},
			m{"spec": m{"size": int64(1), "list": []any{"x", "y"}, "deep": m{}}, "kind": "Widget"},
		},
		{
			"PATCH-12 an empty map is added where there is none, as on the server", Document{"status": m{}},
			m{"spec": m{"size": int64(1), "list": []any{"x", "y"}, "deep": m{"a": "b"}}, "kind": "Widget", "status": m{}},
		},
		{
			"a map takes the place of a value, without its nulls", Document{"kind": m{"a": "b", "c": nil}},
			m{"spec": m{"size": int64(1), "list": []any{"x", "y"}, "deep": m{"a": "b"}}, "kind": m{"a": "b"}},
		},
		{"nothing changes nothing", Document{}, content()},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			before := content()
			if d := cmp.Diff(tc.want, tc.doc.Apply(before)); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(content(), before); d != "" {
				t.Errorf("the content itself has changed: %s", d)
			}
		})
	}
	if d := cmp.Diff(m{"a": "b"}, Document{"a": "b"}.Apply(nil)); d != "" {
		t.Errorf("to nothing: %s", d)
	}
}
