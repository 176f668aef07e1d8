package patch

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/json"
)

type m = map[string]any

func TestDiff(t *testing.T) {
	tests := []struct {
		name          string
		before, after m
		want          MergePatch
	}{
		{"equal documents", m{"a": int64(1), "b": m{"c": "d"}}, m{"a": 1.0, "b": m{"c": "d"}}, MergePatch{}},
		{"an added field", m{}, m{"a": int64(1)}, MergePatch{"a": int64(1)}},
		{"a changed nested field", m{"a": m{"b": "x", "c": "y"}}, m{"a": m{"b": "z", "c": "y"}}, MergePatch{"a": m{"b": "z"}}},
		{"a removed nested field", m{"a": m{"b": "x", "c": "y"}}, m{"a": m{"c": "y"}}, MergePatch{"a": m{"b": nil}}},
		{"a map removed", m{"a": m{"b": "x"}}, m{}, MergePatch{"a": nil}},
		{"a map becomes a value", m{"a": m{"b": "x"}}, m{"a": "x"}, MergePatch{"a": "x"}},
		{"a list is replaced as a whole", m{"a": []any{"x"}}, m{"a": []any{"x", "y"}}, MergePatch{"a": []any{"x", "y"}}},
		{"an absent field becomes null", m{}, m{"a": nil}, MergePatch{"a": Null}},
		{"a null stays", m{"a": nil, "b": []any{nil, m{"c": nil}}}, m{"a": nil, "b": []any{nil, m{"c": nil}}}, MergePatch{}},
		{"a null in a new map", m{"a": "x"}, m{"a": m{"b": nil, "c": m{"d": nil, "e": "x"}}}, MergePatch{"a": m{"b": Null, "c": m{"d": Null, "e": "x"}}}},
		{"a null in a new list", m{}, m{"a": []any{nil, m{"b": nil}}}, MergePatch{"a": []any{nil, m{"b": nil}}}},
		{"a null in an item", m{"a": []any{m{}}}, m{"a": []any{m{"b": nil}}}, MergePatch{"a": []any{m{"b": nil}}}},
		{"a null is removed", m{"a": nil, "b": m{"c": nil}}, m{"b": m{}}, MergePatch{"a": nil, "b": m{"c": nil}}},
		{"a value becomes null", m{"a": "x"}, m{"a": nil}, MergePatch{"a": Null}},
		{"a null becomes a value", m{"a": nil}, m{"a": "x"}, MergePatch{"a": "x"}},
		{"an empty map is added", m{}, m{"a": m{}}, MergePatch{"a": m{}}},
		{"a map becomes empty", m{"a": m{"b": "x"}}, m{"a": m{}}, MergePatch{"a": m{"b": nil}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, Diff(tc.before, tc.after)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// PATCH-02: At sets one field.
func TestAt(t *testing.T) {
	for _, tc := range []struct {
		name  string
		path  []string
		value any
		want  MergePatch
	}{
		{"a path", []string{"status", "results"}, m{"a": "x"}, MergePatch{"status": m{"results": m{"a": "x"}}}},
		{"a removed field", []string{"status"}, nil, MergePatch{"status": nil}},
		{"no path", nil, m{"a": "x"}, MergePatch{"a": "x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, At(tc.path, tc.value)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestMerge_LastPatchWins(t *testing.T) {
	first := MergePatch{"a": m{"x": 1, "y": 1}, "b": "first"}
	second := MergePatch{"a": m{"y": 2}, "b": nil}
	want := MergePatch{"a": m{"x": 1, "y": 2}, "b": nil}
	if d := cmp.Diff(want, Merge(first, second)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff(MergePatch{"a": m{"x": 1, "y": 1}, "b": "first"}, first); d != "" {
		t.Errorf("Merge must not change its argument, got %s", d)
	}
}

// DIFF-10: Unapplied compares only the fields of the patch.
func TestUnapplied(t *testing.T) {
	content := m{"status": m{"a": m{"x": int64(1)}}, "spec": m{"list": []any{"x"}}}
	tests := []struct {
		name string
		doc  MergePatch
		want MergePatch
	}{
		{"nothing to change", MergePatch{"status": m{"a": m{"x": 1.0}}, "spec": m{"list": []any{"x"}}}, MergePatch{}},
		{"a value differs", MergePatch{"status": m{"a": m{"x": 2}}}, MergePatch{"status": m{"a": m{"x": 2}}}},
		{"an absent field is removed", MergePatch{"spec": m{"other": nil}}, MergePatch{}},
		{"a field is removed", MergePatch{"spec": m{"list": nil}}, MergePatch{"spec": m{"list": nil}}},
		{"a new map", MergePatch{"new": m{"k": "v"}}, MergePatch{"new": m{"k": "v"}}},
		{"a field of an absent map is removed", MergePatch{"new": m{"k": nil}}, MergePatch{"new": m{}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, tc.doc.Unapplied(content)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestListPaths(t *testing.T) {
	original := m{"spec": m{"old": []any{"x"}, "same": "y"}}
	doc := MergePatch{
		"spec":     m{"new": []any{"x"}, "old": nil, "same": "z", "deep": m{"er": []any{}}},
		"metadata": m{"finalizers": []any{"f"}},
	}
	want := [][]string{{"metadata", "finalizers"}, {"spec", "deep", "er"}, {"spec", "new"}, {"spec", "old"}}
	if d := cmp.Diff(want, doc.listPaths(original)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestWithoutServerFields(t *testing.T) {
	doc := MergePatch{
		"kind": "Widget", "spec": m{"size": 1},
		"metadata": m{"resourceVersion": "7", "managedFields": []any{}, "generation": 2, "labels": m{"a": "b"}},
	}
	want := MergePatch{"spec": m{"size": 1}, "metadata": m{"labels": m{"a": "b"}}}
	if d := cmp.Diff(want, doc.WithoutServerFields()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff(MergePatch{}, MergePatch{"metadata": m{"resourceVersion": "7"}}.WithoutServerFields()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRebase(t *testing.T) {
	list := func(items ...any) []any { return items }
	base := m{"spec": m{"size": int64(1), "tags": list("user", "old")}}
	for _, test := range []struct {
		name        string
		doc         MergePatch
		other, want m
	}{
		{"B-13 the same list", MergePatch{"spec": m{"tags": list("user", "old", "mine")}}, base, m{"spec": m{"tags": list("user", "old", "mine")}}},
		{"B-01 B-13 items are added to another list", MergePatch{"spec": m{"tags": list("user", "old", "mine")}}, m{"spec": m{"tags": list("old")}}, m{"spec": m{"tags": list("old", "mine")}}},
		{"B-01 B-13 items are removed from another list", MergePatch{"spec": m{"tags": list("user")}}, m{"spec": m{"tags": list("old", "more")}}, m{"spec": m{"tags": list("more")}}},
		{"B-13 the other content has no list", MergePatch{"spec": m{"tags": list("user", "old", "mine")}}, m{}, m{"spec": m{"tags": list("mine")}}},
		{"B-13 other fields are unchanged", MergePatch{"spec": m{"size": int64(2), "gone": nil}}, m{}, m{"spec": m{"size": int64(2), "gone": nil}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, m(test.doc.Rebase(base, test.other))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutOverwritten_KeepsOtherFields(t *testing.T) {
	content := map[string]any{"status": map[string]any{"m": map[string]any{"a": "1", "b": "2"}}}
	for name, test := range map[string]struct{ doc, later, want string }{
		"another field":                          {`{"x":1}`, `{"y":2}`, `{"x":1}`},
		"the same field":                         {`{"x":1,"z":3}`, `{"x":2}`, `{"z":3}`},
		"the same field, removed":                {`{"x":1}`, `{"x":null}`, `{}`},
		"the same list":                          {`{"l":[1],"x":1}`, `{"l":[2]}`, `{"x":1}`},
		"a field of the same map":                {`{"m":{"a":1,"b":2}}`, `{"m":{"a":2}}`, `{"m":{"b":2}}`},
		"the only field of the same map":         {`{"m":{"a":1}}`, `{"m":{"a":2}}`, `{}`},
		"a map that is removed later":            {`{"m":{"a":1}}`, `{"m":null}`, `{}`},
		"a map that becomes a string":            {`{"m":{"a":1}}`, `{"m":"text"}`, `{}`},
		"a string that becomes a map":            {`{"m":"text"}`, `{"m":{"a":1}}`, `{}`},
		"a removed map that is filled again":     {`{"status":{"m":null}}`, `{"status":{"m":{"a":2}}}`, `{"status":{"m":{"b":null}}}`},
		"a removed status that is created again": {`{"status":null}`, `{"status":{"m":{"a":2}}}`, `{"status":{"m":{"b":null}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := parse(t, test.doc).WithoutOverwritten(parse(t, test.later), content)
			if d := cmp.Diff(parse(t, test.want), got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func parse(t *testing.T, text string) MergePatch {
	t.Helper()
	doc := m{}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestChangedConcurrently_FindsThirdValues(t *testing.T) {
	const before = `{"x":"old","l":["old"],"m":{"a":"old","b":"old"}}`
	for name, test := range map[string]struct{ doc, content, want string }{
		"nothing has changed":                         {`{"x":"new"}`, before, `{}`},
		"the patch is applied":                        {`{"x":"new"}`, `{"x":"new"}`, `{}`},
		"a third value":                               {`{"x":"new"}`, `{"x":"other"}`, `{"x":null}`},
		"another client removes the field":            {`{"x":"new"}`, `{}`, `{"x":null}`},
		"a removed field with a third value":          {`{"x":null}`, `{"x":"other"}`, `{"x":null}`},
		"a removed field that is absent":              {`{"x":null}`, `{}`, `{}`},
		"a new field with a third value":              {`{"y":"new"}`, `{"y":"other"}`, `{"y":null}`},
		"another field":                               {`{"x":"new"}`, `{"x":"old","y":"other"}`, `{}`},
		"one of two fields":                           {`{"m":{"a":"new","b":"new"}}`, `{"m":{"a":"other","b":"old"}}`, `{"m":{"a":null}}`},
		"another client removes the map":              {`{"m":{"a":"new"}}`, `{}`, `{"m":{"a":null}}`},
		"a removed map with a third value":            {`{"m":null}`, `{"m":{"a":"other"}}`, `{"m":null}`},
		"a new map with a third value":                {`{"n":{"a":"new"}}`, `{"n":{"a":"other"}}`, `{"n":{"a":null}}`},
		"another client replaces the map by a string": {`{"m":{"a":"new"}}`, `{"m":"other"}`, `{"m":null}`},
		"a list":         {`{"l":["new"]}`, `{"l":["other"]}`, `{}`},
		"a removed list": {`{"l":null}`, `{"l":["other"]}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := parse(t, test.doc).changedConcurrently(parse(t, before), parse(t, test.content))
			if d := cmp.Diff(parse(t, test.want), got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestPaths(t *testing.T) {
	got := parse(t, `{"spec":{"b":null,"a":{"c":1}},"status":{"l":[1]}}`).Paths()
	if d := cmp.Diff([]string{"spec.a.c", "spec.b", "status.l"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestWithoutField(t *testing.T) {
	for name, test := range map[string]struct{ doc, want string }{
		"another field remains":                     {`{"status":{"conditions":[],"phase":"Up"}}`, `{"status":{"phase":"Up"}}`},
		"an empty parent is removed":                {`{"status":{"conditions":null},"spec":{}}`, `{"spec":{}}`},
		"the removal of the parent remains":         {`{"status":null}`, `{"status":null}`},
		"a patch without the field stays unchanged": {`{"spec":{"size":1}}`, `{"spec":{"size":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parse(t, test.doc).WithoutField("status", "conditions"); !reflect.DeepEqual(got, parse(t, test.want)) {
				t.Errorf("got %v, want %s", got, test.want)
			}
		})
	}
}
