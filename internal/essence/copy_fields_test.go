package essence_test

import (
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
)

func TestReplaceFields(t *testing.T) {
	type m = map[string]any
	for _, test := range []struct {
		name           string
		paths          [][]string
		to, from, want m
	}{
		{"no fields", nil, m{"spec": "new"}, m{"spec": "old"}, m{"spec": "new"}},
		{"another value", [][]string{{"status", "phase"}}, m{"status": m{"phase": "B", "x": 1}}, m{"status": m{"phase": "A", "x": 2}}, m{"status": m{"phase": "A", "x": 1}}},
		{"a field that is absent in the other essence", [][]string{{"status", "phase"}}, m{"status": m{"phase": "B", "x": 1}}, m{}, m{"status": m{"x": 1}}},
		{"the only field of a map that is absent in the other essence", [][]string{{"status", "a", "b"}}, m{"status": m{"a": m{"b": 1}}}, m{"spec": 1}, m{}},
		{"the only field of a map that exists in the other essence", [][]string{{"status", "a", "b"}}, m{"status": m{"a": m{"b": 1}}}, m{"status": m{"a": m{}}}, m{"status": m{"a": m{}}}},
		{"a field that was removed", [][]string{{"status", "phase"}}, m{}, m{"status": m{"phase": "A"}}, m{"status": m{"phase": "A"}}},
		{"a whole top-level field", [][]string{{"status"}, {"status", "phase"}}, m{"status": m{"phase": "B"}}, m{"status": m{}}, m{"status": m{}}},
		{"a parent that is not a map", [][]string{{"status", "phase"}}, m{"status": "text"}, m{}, m{"status": "text"}},
		{"a field that is absent in both essences", [][]string{{"status", "phase"}}, m{"spec": 1}, m{}, m{"spec": 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := essence.Builder{Fields: test.paths}.Build(test.from)
			essence.ReplaceFields(test.to, test.from, test.paths)
			equal(t, "essence", test.to, test.want)
			equal(t, "the other essence", essence.Builder{Fields: test.paths}.Build(test.from), before)
		})
	}
}
