package diff_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// Short names keep the tables below readable.
type (
	m = map[string]any
	l = []any
)

func TestOf(t *testing.T) {
	tests := []struct {
		name     string
		old, new any
		want     diff.Diff
	}{
		{name: "appendix B: 1 and 1.0 are equal", old: m{"a": 1}, new: m{"a": 1.0}},
		{
			// Appendix B expects an empty result, but MIG-04 and SE-56 require the difference.
			name: "appendix B, SE-56: true is not 1",
			old:  m{"a": true}, new: m{"a": 1},
			want: diff.Diff{{Op: diff.Change, Path: diff.Path{"a"}, Old: true, New: 1}},
		},
		{name: "appendix B: null and absent are equal", old: m{"a": nil}, new: m{}},
		{
			name: "appendix B: an empty map is not absent",
			old:  m{"a": m{}}, new: m{},
			want: diff.Diff{{Op: diff.Remove, Path: diff.Path{"a"}, Old: m{}}},
		},
		{
			name: "appendix B: a map becomes a string",
			old:  m{"a": m{"b": 1}}, new: m{"a": "x"},
			want: diff.Diff{{Op: diff.Change, Path: diff.Path{"a"}, Old: m{"b": 1}, New: "x"}},
		},
		{
			name: "DIFF-02 absent sides are nil",
			old:  m{"gone": 1, "kept": 1}, new: m{"came": 2, "kept": 2},
			want: diff.Diff{
				{Op: diff.Add, Path: diff.Path{"came"}, Old: nil, New: 2},
				{Op: diff.Remove, Path: diff.Path{"gone"}, Old: 1, New: nil},
				{Op: diff.Change, Path: diff.Path{"kept"}, Old: 1, New: 2},
			},
		},
		{
			name: "DIFF-03 maps are compared recursively",
			old:  m{"a": m{"b": m{"c": 1, "d": 1}}}, new: m{"a": m{"b": m{"c": 2, "d": 1}}},
			want: diff.Diff{{Op: diff.Change, Path: diff.Path{"a", "b", "c"}, Old: 1, New: 2}},
		},
		{
			name: "DIFF-03 lists are compared as a whole",
			old:  m{"a": l{1, m{"b": 1}}}, new: m{"a": l{1, m{"b": 2}}},
			want: diff.Diff{{
				Op: diff.Change, Path: diff.Path{"a"},
				Old: l{1, m{"b": 1}}, New: l{1, m{"b": 2}},
			}},
		},
		{
			name: "DIFF-03 strings are compared as a whole",
			old:  "abc", new: "abd",
			want: diff.Diff{{Op: diff.Change, Old: "abc", New: "abd"}},
		},
		{
			name: "DIFF-04 a scalar becomes a map",
			old:  m{"a": 1}, new: m{"a": m{"b": 1}},
			want: diff.Diff{{Op: diff.Change, Path: diff.Path{"a"}, Old: 1, New: m{"b": 1}}},
		},
		{
			name: "DIFF-04 a map becomes a list",
			old:  m{"b": 1}, new: l{m{"b": 1}},
			want: diff.Diff{{Op: diff.Change, Old: m{"b": 1}, New: l{m{"b": 1}}}},
		},
		{
			name: "DIFF-05 creation is one item",
			old:  nil, new: m{"spec": m{"f": 1}, "metadata": m{}},
			want: diff.Diff{{Op: diff.Add, New: m{"spec": m{"f": 1}, "metadata": m{}}}},
		},
		{
			name: "DIFF-05 a nil map has no old essence",
			old:  m(nil), new: m{"a": 1},
			want: diff.Diff{{Op: diff.Add, New: m{"a": 1}}},
		},
		{
			name: "DIFF-05 creation of an empty value is still one item",
			old:  nil, new: m{},
			want: diff.Diff{{Op: diff.Add, New: m{}}},
		},
		{
			name: "DIFF-05 an added top-level field is one item",
			old:  m{}, new: m{"spec": m{"f": 1, "g": 2}},
			want: diff.Diff{{Op: diff.Add, Path: diff.Path{"spec"}, New: m{"f": 1, "g": 2}}},
		},
		{
			name: "removal of the object is one item",
			old:  m{"a": 1}, new: nil,
			want: diff.Diff{{Op: diff.Remove, Old: m{"a": 1}}},
		},
		{name: "nil to nil", old: nil, new: nil},
		{name: "nil to a nil map", old: nil, new: m(nil)},
		{
			name: "DIFF-06 added, removed, common; sorted in each group",
			old: m{
				"r2": 1, "r1": 1, "c2": 1, "same": 1,
				"c1": m{"x": 1, "y": 1, "z": 1},
			},
			new: m{
				"c2": 2, "a2": 2, "a1": 2, "same": 1,
				"c1": m{"x": 2, "w": 2, "z": 2},
			},
			want: diff.Diff{
				{Op: diff.Add, Path: diff.Path{"a1"}, New: 2},
				{Op: diff.Add, Path: diff.Path{"a2"}, New: 2},
				{Op: diff.Remove, Path: diff.Path{"r1"}, Old: 1},
				{Op: diff.Remove, Path: diff.Path{"r2"}, Old: 1},
				{Op: diff.Add, Path: diff.Path{"c1", "w"}, New: 2},
				{Op: diff.Remove, Path: diff.Path{"c1", "y"}, Old: 1},
				{Op: diff.Change, Path: diff.Path{"c1", "x"}, Old: 1, New: 2},
				{Op: diff.Change, Path: diff.Path{"c1", "z"}, Old: 1, New: 2},
				{Op: diff.Change, Path: diff.Path{"c2"}, Old: 1, New: 2},
			},
		},
		{
			name: "ESS-23 key order and number types do not matter",
			old:  m{"a": 1, "b": l{2.0, m{"c": int64(3)}}}, new: m{"b": l{2, m{"c": 3.0}}, "a": uint8(1)},
		},
		{
			name: "ESS-24 null to value is an addition, value to null a removal",
			old:  m{"a": nil, "b": 1, "c": m(nil)}, new: m{"a": 1, "b": nil, "c": l(nil)},
			want: diff.Diff{
				{Op: diff.Add, Path: diff.Path{"a"}, New: 1},
				{Op: diff.Remove, Path: diff.Path{"b"}, Old: 1},
			},
		},
		{
			name: "ESS-24 null is absent in a map within a list, but not in a list",
			old:  m{"a": l{m{"x": nil}}, "b": l{nil}}, new: m{"a": l{m{}}, "b": l{}},
			want: diff.Diff{{Op: diff.Change, Path: diff.Path{"b"}, Old: l{nil}, New: l{}}},
		},
		{
			name: "MIG-04 integers above 2^53 are exact",
			old:  m{"a": float64(1 << 53)}, new: m{"a": int64(1<<53 + 1)},
			want: diff.Diff{{
				Op: diff.Change, Path: diff.Path{"a"},
				Old: float64(1 << 53), New: int64(1<<53 + 1),
			}},
		},
		{
			name: "keys with dots are not split",
			old:  m{"a": m{"b": 1}}, new: m{"a": m{"b": 1}, "a.b": 2},
			want: diff.Diff{{Op: diff.Add, Path: diff.Path{"a.b"}, New: 2}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := diff.Of(tt.old, tt.new)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("Of() mismatch (-want +got):\n%s", d)
			}
			if got.Empty() != (len(tt.want) == 0) {
				t.Errorf("Empty() = %v for %d items, want %v", got.Empty(), len(got), len(tt.want) == 0)
			}
			if diff.Equal(tt.old, tt.new) != got.Empty() {
				t.Errorf("Equal() = %v, but the diff is: %v", !got.Empty(), got)
			}
		})
	}
}

// DIFF-01: modifying one path does not change another path.
func TestOf_PathsAreIndependent(t *testing.T) {
	got := diff.Of(
		m{"a": m{"b": m{}}},
		m{"a": m{"b": m{"x": 1, "y": 2}, "c": 3}},
	)
	reduced := got.Reduce("a")
	for _, d := range []diff.Diff{reduced, got} {
		for _, item := range d {
			_ = append(item.Path, "overwritten")
		}
	}
	want := diff.Diff{
		{Op: diff.Add, Path: diff.Path{"a", "c"}, New: 3},
		{Op: diff.Add, Path: diff.Path{"a", "b", "x"}, New: 1},
		{Op: diff.Add, Path: diff.Path{"a", "b", "y"}, New: 2},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Of() mismatch (-want +got):\n%s", d)
	}
}

func TestOf_OtherTypes(t *testing.T) {
	type opaque struct{ f func() }
	tests := []struct {
		name     string
		old, new any
		equal    bool
	}{
		{name: "same type and content", old: []string{"a"}, new: []string{"a"}, equal: true},
		{name: "same type, other content", old: []string{"a"}, new: []string{"b"}},
		{name: "another type with the same content", old: map[string]string{"a": "b"}, new: m{"a": "b"}},
		{name: "not comparable by ==", old: opaque{f: func() {}}, new: opaque{f: func() {}}},
		{name: "nil pointer is not null", old: (*int)(nil), new: nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := diff.Of(tt.old, tt.new); got.Empty() != tt.equal {
				t.Errorf("Of() = %v, want empty: %v", got, tt.equal)
			}
			if got := diff.Equal(tt.old, tt.new); got != tt.equal {
				t.Errorf("Equal() = %v, want %v", got, tt.equal)
			}
		})
	}
}
