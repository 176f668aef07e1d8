package patch

import (
	"math"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// B-60: lists of conditions are recognized under any name.
func TestAreConditionLists(t *testing.T) {
	condition := func(kind, status any) map[string]any { return map[string]any{"type": kind, "status": status} }
	list := func(items ...any) []any { return items }
	for name, test := range map[string]struct {
		field string
		lists []any
		want  bool
	}{
		"by its name":                           {"conditions", []any{list(), list(map[string]any{"type": "Ready"})}, true},
		"by its name, empty":                    {"conditions", []any{nil, list()}, true},
		"by its statuses":                       {"checks", []any{nil, list(condition("Ready", "True"), condition("Synced", "Unknown")), list()}, true},
		"empty, with another name":              {"checks", []any{nil, list()}, false},
		"with other statuses":                   {"checks", []any{list(condition("Ready", "Yes"))}, false},
		"with an item that is not a condition":  {"checks", []any{list(condition("Ready", "True"), "text")}, false},
		"one state is not a list of conditions": {"checks", []any{list(condition("Ready", "True")), list("text")}, false},
		"with two items of one type":            {"conditions", []any{list(condition("Ready", "True"), condition("Ready", "False"))}, false},
		"without types":                         {"conditions", []any{list(condition(nil, "True"))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := areConditionLists(test.field, test.lists...); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}

	old := list(condition("Ours", "False"), condition("Theirs", "False"))
	wanted := list(condition("Ours", "True"), condition("Theirs", "False"))
	current := list(condition("Ours", "Unknown"), condition("Theirs", "True"), condition("New", "True"))
	health := func(list []any) map[string]any {
		return map[string]any{"status": map[string]any{"health": map[string]any{"checks": list}}}
	}
	got := MergePatch(health(wanted)).Rebase(health(old), health(current))
	want := MergePatch(health(list(condition("Ours", "True"), condition("Theirs", "True"), condition("New", "True"))))
	if len(Diff(got, want)) > 0 {
		t.Errorf("B-60 conditions at another path = %v, want %v", got, want)
	}
}

// B-60: two clients change the same condition. Its transition time changes only with its status,
// and its observed generation never decreases.
func TestMergeConditions_ConcurrentChange(t *testing.T) {
	condition := func(status, reason string, time any, generation int64) map[string]any {
		return map[string]any{"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": time, "observedGeneration": generation}
	}
	old := condition("False", "Old", "10:00", 1)
	for name, test := range map[string]struct{ wanted, current, want map[string]any }{
		"the same transition":                   {condition("True", "Ours", "10:02", 2), condition("True", "Theirs", "10:01", 2), condition("True", "Ours", "10:01", 2)},
		"another transition":                    {condition("True", "Ours", "10:02", 2), condition("Unknown", "Theirs", "10:01", 2), condition("True", "Ours", "10:02", 2)},
		"a transition of the other client only": {condition("False", "Ours", "10:00", 2), condition("True", "Theirs", "10:01", 2), condition("False", "Ours", "10:01", 2)},
		"a later generation":                    {condition("True", "Ours", "10:02", 2), condition("True", "Theirs", "10:01", 3), condition("True", "Ours", "10:01", 3)},
		"an earlier generation":                 {condition("True", "Ours", "10:02", 3), condition("True", "Theirs", "10:01", 2), condition("True", "Ours", "10:01", 3)},
		"no time":                               {condition("True", "Ours", "10:02", 2), condition("True", "Theirs", nil, 2), condition("True", "Ours", "10:02", 2)},
		"our two transitions":                   {condition("True", "Ours", "09:00", 1), old, condition("True", "Ours", "09:00", 1)},
		"a change of the other client only":     {old, condition("True", "Theirs", "10:01", 2), condition("True", "Theirs", "10:01", 2)},
	} {
		t.Run(name, func(t *testing.T) {
			list := func(item map[string]any) map[string]any { return map[string]any{"conditions": []any{item}} }
			got := MergePatch(list(test.wanted)).Rebase(list(old), list(test.current))
			if difference := Diff(got, list(test.want)); len(difference) > 0 {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// Users choose the length of lists. To compare each item with each other one would block a worker for minutes.
func TestSubtractItems_ComparesFewItems(t *testing.T) {
	const n = 10_000
	var list, others []any
	for i := range n {
		list = append(list, map[string]any{"port": int64(i), "name": "x"})
		others = append(others, map[string]any{"port": float64(n - i), "name": "x", "absent": nil})
	}
	calls := 0
	got := subtractEqual(list, others, func(a, b any) bool {
		calls++
		return diff.Equal(a, b)
	})
	if len(got) != 1 || !diff.Equal(got[0], list[0]) {
		t.Errorf("%d items remain, want only the first one", len(got))
	}
	if calls > 2*n {
		t.Errorf("%d pairs are compared, want about %d", calls, n)
	}
}

func TestHashOf_EqualValuesHaveEqualHashes(t *testing.T) {
	values := []any{
		nil, map[string]any(nil), []any(nil), []any{}, map[string]any{}, map[string]any{"a": nil}, map[string]any{"a": map[string]any(nil)}, "", "a", true, false,
		int64(0), 0.0, math.Copysign(0, -1), int64(1), 1.0, 1.5, int64(1 << 53), float64(1 << 53), int64(1<<53 + 1), int64(math.MaxInt64), float64(math.MaxInt64),
		int64(math.MinInt64), float64(math.MinInt64), math.Inf(1), math.MaxFloat64, []any{int64(1)}, []any{1.0}, []any{nil}, map[string]any{"a": int64(1), "b": []any{"c"}},
		map[string]any{"b": []any{"c"}, "a": 1.0, "d": nil},
	}
	different := 0
	for _, one := range values {
		for _, other := range values {
			switch equal := hashOf(one) == hashOf(other); {
			case diff.Equal(one, other) && !equal:
				t.Errorf("the hashes of %#v and %#v differ", one, other)
			case !equal:
				different++
			}
		}
	}
	if different < len(values)*len(values)/2 {
		t.Errorf("only %d hashes differ", different)
	}
}
