package patch_test

import (
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// The content of a Go type does not show the fields that the type lacks.
func TestRevert_FieldsThatTheTypeLacks(t *testing.T) {
	change := patch.MergePatch{"status": map[string]any{"known": "new", "unknown": map[string]any{"a": "new"}}}
	content := map[string]any{"status": map[string]any{"known": "new"}}
	back := change.Revert(map[string]any{}, content)
	server := map[string]any{"status": map[string]any{"known": "new", "unknown": map[string]any{"a": "new"}, "theirs": "new"}}
	want := map[string]any{"status": map[string]any{"unknown": map[string]any{}, "theirs": "new"}} // expected patch for the known fields
	for name, doc := range map[string]patch.MergePatch{
		"all":            back,
		"unknown fields": patch.Merge(back.RemovalsOfAbsentFields(content), patch.Diff(content, back.Apply(content))),
	} {
		if got := doc.Apply(server); !diff.Equal(got, want) {
			t.Errorf("%s: got %v from patch %v, want %v", name, got, doc, want)
		}
	}
}

// Revert keeps the changes of other clients in the fields of the patch.
func TestRevert(t *testing.T) {
	type fields = map[string]any
	condition := func(kind, status string) any { return fields{"type": kind, "status": status} }
	for name, test := range map[string]struct{ base, patch, content, want fields }{
		"fields that existed before": {
			fields{"a": "old", "m": fields{"x": "old"}, "l": []any{"old"}, "gone": "old"},
			fields{"a": "new", "m": fields{"x": "new"}, "l": []any{"new"}, "gone": nil},
			fields{"a": "new", "m": fields{"x": "new", "y": "theirs"}, "l": []any{"new"}},
			fields{"a": "old", "m": fields{"x": "old", "y": "theirs"}, "l": []any{"old"}, "gone": "old"},
		},
		"fields that did not exist": {
			fields{},
			fields{"s": fields{"a": "new", "m": fields{"x": fields{"y": "new"}}, "l": []any{"new"}, "conditions": []any{condition("A", "True")}}},
			fields{"s": fields{"a": "new", "m": fields{"x": fields{"y": "new"}}, "l": []any{"new"}, "conditions": []any{condition("A", "True")}}},
			fields{"s": fields{}},
		},
		"fields that another client has changed": {
			fields{"a": "old", "l": []any{"old"}, "gone": "old", "m": "old"},
			fields{"a": "new", "l": []any{"new"}, "gone": nil, "m": fields{"x": "new"}},
			fields{"a": "theirs", "l": []any{"new", "theirs"}, "gone": "theirs", "m": "theirs"},
			fields{"a": "theirs", "l": []any{"new", "theirs"}, "gone": "theirs", "m": "theirs"},
		},
		"each condition separately": {
			fields{"conditions": []any{condition("Changed", "True"), condition("Removed", "True"), condition("Kept", "True")}},
			fields{"conditions": []any{condition("Changed", "False"), condition("Kept", "True"), condition("Added", "True"), condition("Both", "True")}},
			fields{"conditions": []any{condition("Theirs", "True"), condition("Changed", "False"), condition("Kept", "False"), condition("Added", "True"), condition("Both", "False")}},
			fields{"conditions": []any{condition("Theirs", "True"), condition("Changed", "True"), condition("Kept", "False"), condition("Both", "False"), condition("Removed", "True")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := patch.MergePatch(test.patch).Revert(test.base, test.content).Apply(test.content)
			if !diff.Equal(got, test.want) {
				t.Errorf("got\n%v, want\n%v", got, test.want)
			}
		})
	}
}
