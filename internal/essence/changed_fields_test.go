package essence_test

import (
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// A version of the operator with handlers for other fields finds all objects changed, once.
func TestAnotherSetOfFieldsIsAChange(t *testing.T) {
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
		{"ESS-22 a field of the status is dropped", phase, none, diff.Diff{{Op: diff.Remove, Path: diff.Path{"status"}, Old: m{"phase": "Up"}}}},
		{"ESS-22 one that is essential anyway", none, size, nil},
		{"ESS-22 the same fields", phase, phase, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, err := essence.Encode(test.stored.Build(content))
			if err != nil {
				t.Fatal(err)
			}
			then, err := test.now.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "what has changed", diff.Of(then, test.now.Build(content)), test.want)
		})
	}
}
