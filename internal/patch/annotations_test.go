package patch_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

func TestDiffAnnotations(t *testing.T) {
	for name, test := range map[string]struct {
		before, after map[string]string
		want          patch.MergePatch
	}{
		"equal annotations":    {map[string]string{"a": "1"}, map[string]string{"a": "1"}, patch.MergePatch{}},
		"an added annotation":  {nil, map[string]string{"a": "1"}, annotations("a", "1")},
		"a changed annotation": {map[string]string{"a": "1", "b": "2"}, map[string]string{"a": "3", "b": "2"}, annotations("a", "3")},
		"a removed annotation": {map[string]string{"a": "1", "b": "2"}, map[string]string{"b": "2"}, annotations("a", nil)},
		// A null for the whole map would also remove annotations of other clients.
		"all removed": {map[string]string{"a": "1", "b": "2"}, nil, patch.MergePatch{"metadata": map[string]any{"annotations": map[string]any{"a": nil, "b": nil}}}},
		"empty value": {nil, map[string]string{"a": ""}, annotations("a", "")},
	} {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(test.before)
			if d := cmp.Diff(test.want, patch.DiffAnnotations(test.before, test.after)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if d := cmp.Diff(before, test.before); d != "" {
				t.Errorf("the input was modified (-before +after):\n%s", d)
			}
		})
	}
}

func annotations(key string, value any) patch.MergePatch {
	return patch.MergePatch{"metadata": map[string]any{"annotations": map[string]any{key: value}}}
}
