package diff_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

func TestReduce(t *testing.T) {
	tests := []struct {
		name     string
		old, new any
		field    []string
		want     diff.Diff
	}{
		{
			name: "appendix B: creation above the field",
			old:  nil, new: m{"spec": m{"f": 1}}, field: []string{"spec", "f"},
			want: diff.Diff{{Op: diff.Add, New: 1}},
		},
		{
			name: "appendix B: a change above the field removes it",
			old:  m{"spec": m{"a": m{"b": 1}}}, new: m{"spec": "str"}, field: []string{"spec", "a", "b"},
			want: diff.Diff{{Op: diff.Remove, Old: 1}},
		},
		{
			name: "DIFF-07 change at the field",
			old:  m{"a": m{"b": 1}}, new: m{"a": m{"b": 2}}, field: []string{"a", "b"},
			want: diff.Diff{{Op: diff.Change, Old: 1, New: 2}},
		},
		{
			name: "DIFF-07 items below the field keep op and order",
			old:  m{"a": m{"c": 1, "r": 1, "z": m{"x": 1}}},
			new:  m{"a": m{"c": 2, "n": 2, "z": m{"x": 2}}}, field: []string{"a"},
			want: diff.Diff{
				{Op: diff.Add, Path: diff.Path{"n"}, New: 2},
				{Op: diff.Remove, Path: diff.Path{"r"}, Old: 1},
				{Op: diff.Change, Path: diff.Path{"c"}, Old: 1, New: 2},
				{Op: diff.Change, Path: diff.Path{"z", "x"}, Old: 1, New: 2},
			},
		},
		{
			name: "DIFF-07 a change above the field adds it",
			old:  m{"a": "str"}, new: m{"a": m{"b": m{"c": 1}}}, field: []string{"a", "b"},
			want: diff.Diff{{Op: diff.Add, New: m{"c": 1}}},
		},
		{
			name: "DIFF-07 removal above the field",
			old:  m{"a": m{"b": m{"c": 1}}}, new: m{}, field: []string{"a", "b", "c"},
			want: diff.Diff{{Op: diff.Remove, Old: 1}},
		},
		{
			name: "DIFF-07 creation without the field",
			old:  nil, new: m{"a": m{"b": 1}}, field: []string{"a", "c"},
		},
		{
			name: "DIFF-07 creation with a null field",
			old:  nil, new: m{"a": m{"b": nil}}, field: []string{"a", "b"},
		},
		{
			name: "DIFF-07 unrelated items are removed",
			old:  m{"a": 1, "b": 1, "c": m{"a": 1}}, new: m{"a": 2, "b": 2, "c": m{"a": 2}}, field: []string{"b"},
			want: diff.Diff{{Op: diff.Change, Old: 1, New: 2}},
		},
		{
			name: "DIFF-07 a common text prefix is not a common path",
			old:  m{"ab": 1, "a.b": 1}, new: m{"ab": 2, "a.b": 2}, field: []string{"a", "b"},
		},
		{
			name: "DIFF-07 lists have no fields",
			old:  m{"a": l{m{"b": 1}}}, new: m{"a": l{m{"b": 2}}}, field: []string{"a", "0", "b"},
		},
		{
			name: "DIFF-07 a field of an empty diff",
			old:  m{"a": 1}, new: m{"a": 1}, field: []string{"a"},
		},
		{
			name: "DIFF-07 an empty path returns the same diff",
			old:  m{"a": 1}, new: m{"a": 2}, field: nil,
			want: diff.Diff{{Op: diff.Change, Path: diff.Path{"a"}, Old: 1, New: 2}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			whole := diff.Of(tt.old, tt.new)
			got := whole.Reduce(tt.field...)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("Reduce() mismatch (-want +got):\n%s", d)
			}

			// DIFF-08: the diff of the field values equals the reduced diff.
			oldValue, _ := diff.Lookup(tt.old, tt.field...)
			newValue, _ := diff.Lookup(tt.new, tt.field...)
			if d := cmp.Diff(diff.Of(oldValue, newValue), got); d != "" {
				t.Errorf("Reduce() differs from the diff of the field (-want +got):\n%s", d)
			}

			// DIFF-09: Reduce does not modify the diff, so that other filters can use it.
			if d := cmp.Diff(diff.Of(tt.old, tt.new), whole); d != "" {
				t.Errorf("Reduce() modified its receiver (-want +got):\n%s", d)
			}
		})
	}
}

func TestReduce_InSteps(t *testing.T) {
	whole := diff.Of(m{"a": m{"b": m{"c": 1}}}, m{"a": m{"b": m{"c": 2, "d": 3}}})
	want := whole.Reduce("a", "b")
	if d := cmp.Diff(want, whole.Reduce("a").Reduce("b")); d != "" {
		t.Errorf("mismatch (-in one step +in steps):\n%s", d)
	}
}
