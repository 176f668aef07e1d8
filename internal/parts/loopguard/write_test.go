package loopguard_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/loopguard"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

func TestNewWrite(t *testing.T) {
	type doc = patch.MergePatch
	builder := essence.Builder{Fields: [][]string{{"status", "phase"}}, Conditions: []string{"Ready"}}
	for _, test := range []struct {
		name         string
		base, stored m
		doc          doc
		fields       string
		paths        []string
	}{
		{"a field", m{"spec": m{"x": "1"}}, m{"spec": m{"x": "2"}}, doc{"spec": m{"x": "2"}}, `{"spec":{"x":"2"}}`, []string{"spec.x"}},
		{"a field that has the value already", m{"spec": m{"x": "2"}}, m{"spec": m{"x": "2"}}, doc{"spec": m{"x": "2"}}, `{}`, []string{"spec.x"}},
		{"a removed field", m{"spec": m{"x": "1", "y": "1"}}, m{"spec": m{"y": "1"}}, doc{"spec": m{"x": nil}}, `{"spec":{"x":null}}`, []string{"spec.x"}},
		{"a field that the API server has changed", m{"spec": m{"x": "1"}}, m{"spec": m{"x": "3"}}, doc{"spec": m{"x": "2"}}, `{"spec":{"x":"3"}}`, []string{"spec.x"}},
		{"a field that another client has changed", m{"spec": m{"x": "1", "y": "1"}}, m{"spec": m{"x": "2", "y": "2"}}, doc{"spec": m{"x": "2"}}, `{"spec":{"x":"2"}}`, []string{"spec.x"}},
		{"a field of the status outside of the essence", m{}, m{"status": m{"x": "1"}}, doc{"status": m{"x": "1"}}, `{}`, []string{"status.x"}},
		{"a field of the status", m{}, m{"status": m{"phase": "a"}}, doc{"status": m{"phase": "a"}}, `{"status":{"phase":"a"}}`, []string{"status.phase"}},
		{"a condition", m{}, m{"status": m{"conditions": []any{m{"type": "Ready", "status": "True"}}}},
			doc{"status": m{"conditions": []any{m{"type": "Ready", "status": "True"}}}}, fmt.Sprintf(`{%q:{"Ready":"True"}}`, essence.ConditionsKey), []string{"status.conditions"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			write := loopguard.NewWrite(builder, test.base, test.stored, test.doc, "7")
			if got := text(t, write.Fields); got != test.fields {
				t.Errorf("fields %s, want %s", got, test.fields)
			}
			if !slices.Equal(write.Paths, test.paths) || !slices.Equal(write.Versions, []string{"7"}) {
				t.Errorf("paths %v, versions %v, want %v and 7", write.Paths, write.Versions, test.paths)
			}
		})
	}
}
