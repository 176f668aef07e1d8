package diff_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

func TestLookup(t *testing.T) {
	object := m{"a": m{"b": m{"c": 1}, "null": nil, "nilmap": m(nil), "empty": m{}}, "l": l{m{"x": 1}}, "s": "str"}
	tests := []struct {
		name   string
		value  any
		path   []string
		want   any
		wantOK bool
	}{
		{name: "DIFF-08 field value", value: object, path: []string{"a", "b", "c"}, want: 1, wantOK: true},
		{name: "DIFF-08 field that is a map", value: object, path: []string{"a", "b"}, want: m{"c": 1}, wantOK: true},
		{name: "DIFF-08 absent is nil", value: object, path: []string{"a", "x"}},
		{name: "DIFF-08 absent parent", value: object, path: []string{"x", "y", "z"}},
		{name: "DIFF-08 a string has no fields", value: object, path: []string{"s", "x"}},
		{name: "DIFF-08 a list has no fields", value: object, path: []string{"l", "0"}},
		{name: "ESS-24 null is absent", value: object, path: []string{"a", "null"}},
		{name: "ESS-24 below null", value: object, path: []string{"a", "null", "x"}},
		{name: "ESS-24 nil map is absent", value: object, path: []string{"a", "nilmap"}},
		{name: "empty map is present", value: object, path: []string{"a", "empty"}, want: m{}, wantOK: true},
		{name: "an empty path returns the value", value: "str", want: "str", wantOK: true},
		{name: "nil value", value: nil},
		{name: "field of nil", value: nil, path: []string{"a"}},
		{name: "dots are not split", value: m{"a": m{"b": 1}}, path: []string{"a.b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := diff.Lookup(tt.value, tt.path...)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("Lookup() mismatch (-want +got):\n%s", d)
			}
			if ok != tt.wantOK {
				t.Errorf("Lookup() found = %v, want %v", ok, tt.wantOK)
			}
		})
	}
}
