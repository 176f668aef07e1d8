package essence_test

import (
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// After an upgrade to handlers with other fields, each object has one change.
func TestBuild_OtherFieldsAreAChange(t *testing.T) {
	type m = map[string]any
	content := m{"spec": m{"f": int64(1)}, "status": m{"phase": "Up"}}
	none := essence.Builder{Cleaners: cleaners()}
	phase := essence.Builder{Cleaners: cleaners(), Fields: [][]string{{"status", "phase"}}}
	size := essence.Builder{Cleaners: cleaners(), Fields: [][]string{{"spec", "f"}}}
	for _, test := range []struct {
		name        string
		stored, now essence.Builder
		want        diff.Diff
	}{
		{"ESS-22 a field of the status is added", none, phase, diff.Diff{{Op: diff.Add, Path: diff.Path{"status"}, New: m{"phase": "Up"}}}},
		{"ESS-22 a field of the status is removed", phase, none, diff.Diff{{Op: diff.Remove, Path: diff.Path{"status"}, Old: m{"phase": "Up"}}}},
		{"ESS-22 a field of the spec is added", none, size, nil},
		{"ESS-22 the fields stay the same", phase, phase, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, err := essence.Encode(test.stored.Build(content))
			if err != nil {
				t.Fatal(err)
			}
			old, err := test.now.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "diff", diff.Of(old, test.now.Build(content)), test.want)
		})
	}
}
