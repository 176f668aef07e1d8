package patch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

func observed(fields m, number int) m {
	out := m{"observedGeneration": int64(number)}
	maps.Copy(out, fields)
	return out
}

// The places where a patch sets an observed generation, and the content after they are raised from 3 to 4.
func TestRaiseObserved(t *testing.T) {
	ready, other := m{"type": "Ready", "status": "True"}, m{"type": "Other", "status": "True"}
	for _, test := range []struct {
		name        string
		base        m
		doc         MergePatch
		places      string
		want        m // the status after the raise; nil if nothing changes
		isPermanent bool
	}{
		{"a field", nil, MergePatch{"status": observed(nil, 3)}, "status.observedGeneration", observed(nil, 4), true},
		{"a field of an older generation", nil, MergePatch{"status": observed(nil, 2)}, "status.observedGeneration", nil, true},
		{"a field of a newer generation", nil, MergePatch{"status": observed(nil, 4)}, "status.observedGeneration", nil, true},
		{"a field outside of the status", nil, MergePatch{"spec": observed(nil, 3)}, "", nil, true},
		{"a field that is no number", nil, MergePatch{"status": m{"observedGeneration": "3"}}, "", nil, true},
		{"a field that is removed", m{"status": observed(nil, 3)}, MergePatch{"status": m{"observedGeneration": nil}}, "", nil, true},
		{"a field of a map", nil, MergePatch{"status": m{"a": observed(nil, 3)}}, "status.a.observedGeneration", m{"a": observed(nil, 4)}, true},
		{
			"a condition beside one of another client", m{"status": m{"conditions": []any{observed(other, 3)}}},
			MergePatch{"status": m{"conditions": []any{observed(other, 3), observed(ready, 3)}}}, "status.conditions[Ready]",
			m{"conditions": []any{observed(other, 3), observed(ready, 4)}}, true,
		},
		{
			"a changed condition", m{"status": m{"conditions": []any{observed(m{"type": "Ready", "status": "False"}, 3)}}},
			MergePatch{"status": m{"conditions": []any{observed(ready, 3)}}}, "status.conditions[Ready]",
			m{"conditions": []any{observed(ready, 4)}}, true,
		},
		{"a condition without a generation", nil, MergePatch{"status": m{"conditions": []any{ready}}}, "", nil, true},
		{
			"nested lists", nil, MergePatch{"status": m{"listeners": []any{m{"name": "x", "conditions": []any{observed(ready, 3), observed(other, 1)}}}}},
			"status.listeners[x]", m{"listeners": []any{m{"name": "x", "conditions": []any{observed(ready, 4), observed(other, 1)}}}}, true,
		},
		{
			"items without a type or a name", m{"status": m{"parts": []any{observed(m{"a": "x"}, 3)}}},
			MergePatch{"status": m{"parts": []any{observed(m{"a": "x"}, 3), observed(m{"a": "y"}, 3)}}},
			"status.parts[]", m{"parts": []any{observed(m{"a": "x"}, 3), observed(m{"a": "y"}, 4)}}, false,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			places := test.doc.Observations(test.base)
			var names []string
			for _, place := range places {
				name := strings.Join(place.Path, ".")
				if place.Item != nil {
					_, value := place.Key()
					name += "[" + value + "]"
				}
				names = append(names, name)
				if place.IsPermanent() != test.isPermanent {
					t.Errorf("IsPermanent of %s = %t", name, place.IsPermanent())
				}
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); got != test.places {
				t.Errorf("places %q, want %q", got, test.places)
			}
			content := test.doc.Apply(test.base)
			before := fmt.Sprint(content)
			want := content["status"]
			if test.want != nil {
				want = test.want
			}
			for i, place := range places {
				if place.IsPermanent() {
					places[i] = place.WithoutValues()
				}
			}
			doc := RaiseObserved(content, places, Generations{From: 3, To: 4})
			if after := doc.Apply(content); !diff.Equal(after["status"], want) || (len(doc) > 0) != (test.want != nil) {
				t.Errorf("the patch %v makes %v, want %v", doc, after["status"], want)
			}
			if fmt.Sprint(content) != before {
				t.Error("the content was changed")
			}
		})
	}
}

func TestGenerations(t *testing.T) {
	var none Generations
	first := none.Extend(Generations{From: 3, To: 4})
	if both := first.Extend(Generations{From: 4, To: 5}); both != (Generations{From: 3, To: 5}) || !both.Contains(int64(3)) || both.Contains(int64(5)) {
		t.Errorf("adjacent generations = %v, want 3 to 5", both)
	}
	if later := first.Extend(Generations{From: 5, To: 6}); later != (Generations{From: 5, To: 6}) || later.Contains(int64(3)) {
		t.Errorf("generations after a gap = %v, want 5 to 6", later)
	}
	if !none.IsEmpty() || first.IsEmpty() {
		t.Error("IsEmpty is wrong")
	}
}
