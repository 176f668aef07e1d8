package patch

import "testing"

// What is written by types is recognised, whatever the list is called (B-60).
func TestListsOfConditions(t *testing.T) {
	one := func(kind, status any) map[string]any { return map[string]any{"type": kind, "status": status} }
	list := func(items ...any) []any { return items }
	for name, test := range map[string]struct {
		field string
		lists []any
		want  bool
	}{
		"by its name":                     {"conditions", []any{list(), list(map[string]any{"type": "Ready"})}, true},
		"by its name, though it is empty": {"conditions", []any{nil, list()}, true},
		"by its looks":                    {"checks", []any{nil, list(one("Ready", "True"), one("Synced", "Unknown")), list()}, true},
		"empty":                           {"checks", []any{nil, list()}, false},
		"of other words":                  {"checks", []any{list(one("Ready", "Yes"))}, false},
		"of other things, too":            {"checks", []any{list(one("Ready", "True"), "text")}, false},
		"now and then":                    {"checks", []any{list(one("Ready", "True")), list("text")}, false},
		"with a type twice":               {"conditions", []any{list(one("Ready", "True"), one("Ready", "False"))}, false},
		"without types":                   {"conditions", []any{list(one(nil, "True"))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := areConditions(test.field, test.lists...); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}

	was := list(one("Ours", "False"), one("Theirs", "False"))
	wanted := list(one("Ours", "True"), one("Theirs", "False"))
	is := list(one("Ours", "Unknown"), one("Theirs", "True"), one("New", "True"))
	health := func(list []any) map[string]any {
		return map[string]any{"status": map[string]any{"health": map[string]any{"checks": list}}}
	}
	got := Document(health(wanted)).Onto(health(was), health(is))
	want := Document(health(list(one("Ours", "True"), one("Theirs", "True"), one("New", "True"))))
	if len(Between(got, want)) > 0 {
		t.Errorf("B-60 others' conditions on another path: %v", got)
	}
}

// Done when 2: two writers of one operator say something about the same condition. Its time changes with its status
// only, and what was observed never falls.
func TestConditionsThatSomebodyElseHasWrittenMeanwhile(t *testing.T) {
	one := func(status, reason string, time any, generation int64) map[string]any {
		return map[string]any{"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": time, "observedGeneration": generation}
	}
	was := one("False", "Old", "10:00", 1)
	for name, test := range map[string]struct{ wanted, is, want map[string]any }{
		"the same transition":          {one("True", "Ours", "10:02", 2), one("True", "Theirs", "10:01", 2), one("True", "Ours", "10:01", 2)},
		"another one":                  {one("True", "Ours", "10:02", 2), one("Unknown", "Theirs", "10:01", 2), one("True", "Ours", "10:02", 2)},
		"none, after a transition":     {one("False", "Ours", "10:00", 2), one("True", "Theirs", "10:01", 2), one("False", "Ours", "10:01", 2)},
		"of a later generation":        {one("True", "Ours", "10:02", 2), one("True", "Theirs", "10:01", 3), one("True", "Ours", "10:01", 3)},
		"of an earlier one":            {one("True", "Ours", "10:02", 3), one("True", "Theirs", "10:01", 2), one("True", "Ours", "10:01", 3)},
		"without a time":               {one("True", "Ours", "10:02", 2), one("True", "Theirs", nil, 2), one("True", "Ours", "10:02", 2)},
		"there and back, by ourselves": {one("True", "Ours", "09:00", 1), was, one("True", "Ours", "09:00", 1)},
		"that only they have written":  {was, one("True", "Theirs", "10:01", 2), one("True", "Theirs", "10:01", 2)},
	} {
		t.Run(name, func(t *testing.T) {
			list := func(item map[string]any) map[string]any { return map[string]any{"conditions": []any{item}} }
			got := Document(list(test.wanted)).Onto(list(was), list(test.is))
			if difference := Between(got, list(test.want)); len(difference) > 0 {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
