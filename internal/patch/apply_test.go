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
		doc  MergePatch
		want m
	}{
		{
			"PATCH-12 a null removes", MergePatch{"spec": m{"size": nil}},
			m{"spec": m{"list": []any{"x", "y"}, "deep": m{"a": "b"}}, "kind": "Widget"},
		},
		{
			"PATCH-12 maps recurse", MergePatch{"spec": m{"deep": m{"c": "d"}}},
			m{"spec": m{"size": int64(1), "list": []any{"x", "y"}, "deep": m{"a": "b", "c": "d"}}, "kind": "Widget"},
		},
		{
			"PATCH-12 lists are replaced", MergePatch{"spec": m{"list": []any{"z"}}},
			m{"spec": m{"size": int64(1), "list": []any{"z"}, "deep": m{"a": "b"}}, "kind": "Widget"},
		},
		{
			"PATCH-12 an emptied map remains, as on the API server", MergePatch{"spec": m{"deep": m{"a": nil}}},
			m{"spec": m{"size": int64(1), "list": []any{"x", "y"}, "deep": m{}}, "kind": "Widget"},
		},
		{
			"PATCH-12 an empty map is added, as on the API server", MergePatch{"status": m{}},
			m{"spec": m{"size": int64(1), "list": []any{"x", "y"}, "deep": m{"a": "b"}}, "kind": "Widget", "status": m{}},
		},
		{
			"a map without its nulls replaces a value", MergePatch{"kind": m{"a": "b", "c": nil}},
			m{"spec": m{"size": int64(1), "list": []any{"x", "y"}, "deep": m{"a": "b"}}, "kind": m{"a": "b"}},
		},
		{"an empty patch", MergePatch{}, content()},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			before := content()
			if d := cmp.Diff(tc.want, tc.doc.Apply(before)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if d := cmp.Diff(content(), before); d != "" {
				t.Errorf("Apply must not change its argument, got %s", d)
			}
		})
	}
	if d := cmp.Diff(m{"a": "b"}, MergePatch{"a": "b"}.Apply(nil)); d != "" {
		t.Errorf("Apply to nil (-want +got):\n%s", d)
	}
}
