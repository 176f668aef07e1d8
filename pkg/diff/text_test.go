package diff_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

func TestPath_String(t *testing.T) {
	for want, path := range map[string]diff.Path{
		"":       nil,
		"spec":   {"spec"},
		"spec.f": {"spec", "f"},
	} {
		if got := path.String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}

func TestItem_String(t *testing.T) {
	tests := []struct {
		name string
		item diff.Item
		want string
	}{
		{
			name: "addition",
			item: diff.Item{Op: diff.Add, Path: diff.Path{"spec", "f"}, New: m{"b": 1, "a": l{true}}},
			want: `add spec.f: {"a":[true],"b":1}`,
		},
		{
			name: "removal",
			item: diff.Item{Op: diff.Remove, Path: diff.Path{"f"}, Old: "a<b"},
			want: `remove f: "a<b"`,
		},
		{
			name: "change",
			item: diff.Item{Op: diff.Change, Path: diff.Path{"f"}, Old: 1, New: 1.5},
			want: `change f: 1 -> 1.5`,
		},
		{
			name: "empty path",
			item: diff.Item{Op: diff.Add, New: m{}},
			want: `add: {}`,
		},
		{
			name: "line breaks",
			item: diff.Item{Op: diff.Add, Path: diff.Path{"a\nb"}, New: "c\nd"},
			want: `add "a\nb": "c\nd"`,
		},
		{
			name: "values without a JSON encoding",
			item: diff.Item{Op: diff.Change, Path: diff.Path{"f"}, Old: math.NaN(), New: math.Inf(1)},
			want: `change f: NaN -> +Inf`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.item.String()
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("String() mismatch (-want +got):\n%s", d)
			}
			if strings.Contains(got, "\n") {
				t.Errorf("String() has several lines: %q", got)
			}
		})
	}
}

func TestDiff_String(t *testing.T) {
	if got := diff.Of(nil, nil).String(); got != "" {
		t.Errorf("String() of an empty diff = %q, want an empty string", got)
	}
	want := "add new: 1\nremove old: 2"
	if got := diff.Of(m{"old": 2}, m{"new": 1}).String(); got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}
