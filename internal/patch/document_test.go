package patch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/json"
)

type m = map[string]any

func TestBetween(t *testing.T) {
	tests := []struct {
		name          string
		before, after m
		want          Document
	}{
		{"equal", m{"a": int64(1), "b": m{"c": "d"}}, m{"a": 1.0, "b": m{"c": "d"}}, Document{}},
		{"added", m{}, m{"a": int64(1)}, Document{"a": int64(1)}},
		{"changed deep inside", m{"a": m{"b": "x", "c": "y"}}, m{"a": m{"b": "z", "c": "y"}}, Document{"a": m{"b": "z"}}},
		{"removed", m{"a": m{"b": "x", "c": "y"}}, m{"a": m{"c": "y"}}, Document{"a": m{"b": nil}}},
		{"a map removed", m{"a": m{"b": "x"}}, m{}, Document{"a": nil}},
		{"a map becomes a value", m{"a": m{"b": "x"}}, m{"a": "x"}, Document{"a": "x"}},
		{"a list is a whole", m{"a": []any{"x"}}, m{"a": []any{"x", "y"}}, Document{"a": []any{"x", "y"}}},
		{"nothing to nothing", m{}, m{"a": nil}, Document{}},
		{"a value becomes null", m{"a": "x"}, m{"a": nil}, Document{"a": nil}},
		{"an empty map is added", m{}, m{"a": m{}}, Document{"a": m{}}},
		{"a map becomes empty", m{"a": m{"b": "x"}}, m{"a": m{}}, Document{"a": m{"b": nil}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, Between(tc.before, tc.after)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestMergedPrefersTheLaterAndKeepsItsSources(t *testing.T) {
	first := Document{"a": m{"x": 1, "y": 1}, "b": "first"}
	second := Document{"a": m{"y": 2}, "b": nil}
	want := Document{"a": m{"x": 1, "y": 2}, "b": nil}
	if d := cmp.Diff(want, Merged(first, second)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Document{"a": m{"x": 1, "y": 1}, "b": "first"}, first); d != "" {
		t.Errorf("a source has changed: %s", d)
	}
}

// DIFF-10: only what the patch has is compared, whatever else the object has.
func TestMissing(t *testing.T) {
	content := m{"status": m{"a": m{"x": int64(1)}}, "spec": m{"list": []any{"x"}}}
	tests := []struct {
		name string
		doc  Document
		want Document
	}{
		{"all there", Document{"status": m{"a": m{"x": 1.0}}, "spec": m{"list": []any{"x"}}}, Document{}},
		{"a value differs", Document{"status": m{"a": m{"x": 2}}}, Document{"status": m{"a": m{"x": 2}}}},
		{"removing what is absent", Document{"spec": m{"other": nil}}, Document{}},
		{"removing what is there", Document{"spec": m{"list": nil}}, Document{"spec": m{"list": nil}}},
		{"a new map", Document{"new": m{"k": "v"}}, Document{"new": m{"k": "v"}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, tc.doc.Missing(content)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestListsAreFoundWhereverTheyAreReplaced(t *testing.T) {
	original := m{"spec": m{"old": []any{"x"}, "same": "y"}}
	doc := Document{
		"spec":     m{"new": []any{"x"}, "old": nil, "same": "z", "deep": m{"er": []any{}}},
		"metadata": m{"finalizers": []any{"f"}},
	}
	want := [][]string{{"metadata", "finalizers"}, {"spec", "deep", "er"}, {"spec", "new"}, {"spec", "old"}}
	if d := cmp.Diff(want, doc.lists(original)); d != "" {
		t.Error(d)
	}
}

func TestEssentialLeavesTheServerItsOwn(t *testing.T) {
	doc := Document{
		"kind": "Widget", "spec": m{"size": 1},
		"metadata": m{"resourceVersion": "7", "managedFields": []any{}, "generation": 2, "labels": m{"a": "b"}},
	}
	want := Document{"spec": m{"size": 1}, "metadata": m{"labels": m{"a": "b"}}}
	if d := cmp.Diff(want, doc.Essential()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Document{}, Document{"metadata": m{"resourceVersion": "7"}}.Essential()); d != "" {
		t.Error(d)
	}
}

func TestOnto(t *testing.T) {
	list := func(items ...any) []any { return items }
	base := m{"spec": m{"size": int64(1), "tags": list("user", "old")}}
	for _, test := range []struct {
		name        string
		doc         Document
		other, want m
	}{
		{"B-13 the same list", Document{"spec": m{"tags": list("user", "old", "mine")}}, base, m{"spec": m{"tags": list("user", "old", "mine")}}},
		{"B-01 B-13 what was added, to another list", Document{"spec": m{"tags": list("user", "old", "mine")}}, m{"spec": m{"tags": list("old")}}, m{"spec": m{"tags": list("old", "mine")}}},
		{"B-01 B-13 what was taken away, from another list", Document{"spec": m{"tags": list("user")}}, m{"spec": m{"tags": list("old", "more")}}, m{"spec": m{"tags": list("more")}}},
		{"B-13 a list that the other has not", Document{"spec": m{"tags": list("user", "old", "mine")}}, m{}, m{"spec": m{"tags": list("mine")}}},
		{"B-13 anything else is as it is", Document{"spec": m{"size": int64(2), "gone": nil}}, m{}, m{"spec": m{"size": int64(2), "gone": nil}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, m(test.doc.Onto(base, test.other))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSupersededBy_LeavesOtherFields(t *testing.T) {
	content := map[string]any{"status": map[string]any{"m": map[string]any{"a": "1", "b": "2"}}}
	for name, test := range map[string]struct{ doc, later, want string }{
		"another field":                       {`{"x":1}`, `{"y":2}`, `{"x":1}`},
		"the same field":                      {`{"x":1,"z":3}`, `{"x":2}`, `{"z":3}`},
		"the same field, removed":             {`{"x":1}`, `{"x":null}`, `{}`},
		"the same list":                       {`{"l":[1],"x":1}`, `{"l":[2]}`, `{"x":1}`},
		"a field of the same map":             {`{"m":{"a":1,"b":2}}`, `{"m":{"a":2}}`, `{"m":{"b":2}}`},
		"the only field of the same map":      {`{"m":{"a":1}}`, `{"m":{"a":2}}`, `{}`},
		"a map that is removed later":         {`{"m":{"a":1}}`, `{"m":null}`, `{}`},
		"a map that becomes a text":           {`{"m":{"a":1}}`, `{"m":"text"}`, `{}`},
		"a text that becomes a map":           {`{"m":"text"}`, `{"m":{"a":1}}`, `{}`},
		"a removed map that is filled again":  {`{"status":{"m":null}}`, `{"status":{"m":{"a":2}}}`, `{"status":{"m":{"b":null}}}`},
		"a removed status that is made again": {`{"status":null}`, `{"status":{"m":{"a":2}}}`, `{"status":{"m":{"b":null}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := parse(t, test.doc).SupersededBy(parse(t, test.later), content)
			if d := cmp.Diff(parse(t, test.want), got); d != "" {
				t.Error(d)
			}
		})
	}
}

func parse(t *testing.T, text string) Document {
	t.Helper()
	doc := m{}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestChangedByOthers_FindsThirdValues(t *testing.T) {
	const before = `{"x":"old","l":["old"],"m":{"a":"old","b":"old"}}`
	for name, test := range map[string]struct{ doc, content, want string }{
		"nothing has changed":                 {`{"x":"new"}`, before, `{}`},
		"the patch is there":                  {`{"x":"new"}`, `{"x":"new"}`, `{}`},
		"a third value":                       {`{"x":"new"}`, `{"x":"other"}`, `{"x":null}`},
		"a field that is removed by others":   {`{"x":"new"}`, `{}`, `{"x":null}`},
		"a removed field with a third value":  {`{"x":null}`, `{"x":"other"}`, `{"x":null}`},
		"a removed field that is gone":        {`{"x":null}`, `{}`, `{}`},
		"a new field with a third value":      {`{"y":"new"}`, `{"y":"other"}`, `{"y":null}`},
		"another field":                       {`{"x":"new"}`, `{"x":"old","y":"other"}`, `{}`},
		"one of two fields":                   {`{"m":{"a":"new","b":"new"}}`, `{"m":{"a":"other","b":"old"}}`, `{"m":{"a":null}}`},
		"a map that is removed by others":     {`{"m":{"a":"new"}}`, `{}`, `{"m":{"a":null}}`},
		"a removed map with a third value":    {`{"m":null}`, `{"m":{"a":"other"}}`, `{"m":null}`},
		"a new map with a third value":        {`{"n":{"a":"new"}}`, `{"n":{"a":"other"}}`, `{"n":{"a":null}}`},
		"a map that is a text by now":         {`{"m":{"a":"new"}}`, `{"m":"other"}`, `{"m":null}`},
		"a list, which the version guards":    {`{"l":["new"]}`, `{"l":["other"]}`, `{}`},
		"a removed list, which it guards too": {`{"l":null}`, `{"l":["other"]}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := parse(t, test.doc).changedByOthers(parse(t, before), parse(t, test.content))
			if d := cmp.Diff(parse(t, test.want), got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestPaths(t *testing.T) {
	got := parse(t, `{"spec":{"b":null,"a":{"c":1}},"status":{"l":[1]}}`).Paths()
	if d := cmp.Diff([]string{"spec.a.c", "spec.b", "status.l"}, got); d != "" {
		t.Error(d)
	}
}
