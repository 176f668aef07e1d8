package patch

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// applyJSON applies the JSON patch of a merge patch with the library of the API server.
func applyJSON(t *testing.T, doc MergePatch, content m) m {
	t.Helper()
	text, err := json.Marshal(doc.jsonPatch(content))
	if err != nil {
		t.Fatal(err)
	}
	operations, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	after, err := operations.Apply(before)
	if err != nil {
		t.Fatalf("%s on %s: %v", text, before, err)
	}
	out := m{}
	if err := utiljson.Unmarshal(after, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestJSONPatch(t *testing.T) {
	for _, tc := range []struct {
		name    string
		doc     MergePatch
		content m
		want    string
	}{
		{"nothing", MergePatch{}, m{"a": "x"}, `null`},
		{"null", MergePatch{"a": Null}, m{"a": "x"}, `[{"op":"add","path":"/a","value":null}]`},
		{"a removal", MergePatch{"a": nil}, m{"a": nil}, `[{"op":"remove","path":"/a"}]`},
		{"a removal of an absent field", MergePatch{"a": nil}, m{}, `null`},
		{"a field of a map", MergePatch{"a": m{"b": Null, "c": nil}}, m{"a": m{"c": "x"}}, `[{"op":"add","path":"/a/b","value":null},{"op":"remove","path":"/a/c"}]`},
		{"a field of an absent map", MergePatch{"a": m{"b": m{"c": Null, "d": nil}}}, m{}, `[{"op":"add","path":"/a","value":{"b":{"c":null}}}]`},
		{"a map instead of a value", MergePatch{"a": m{"b": Null}}, m{"a": "x"}, `[{"op":"add","path":"/a","value":{"b":null}}]`},
		{"special characters", MergePatch{"a/b~c": m{"": Null}}, m{"a/b~c": m{}}, `[{"op":"add","path":"/a~1b~0c/","value":null}]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, err := json.Marshal(tc.doc.jsonPatch(tc.content))
			if err != nil || string(text) != tc.want {
				t.Errorf("got %s, error %v, want %s", text, err, tc.want)
			}
			if d := cmp.Diff(tc.doc.Apply(tc.content), applyJSON(t, tc.doc, tc.content)); d != "" {
				t.Errorf("the JSON patch differs from the merge patch: %s", d)
			}
		})
	}
}

func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case n < 3 && depth > 0:
		out := m{}
		for range r.IntN(4) {
			out[fmt.Sprint("k", r.IntN(4))] = randomValue(r, depth-1)
		}
		return out
	case n == 3 && depth > 0:
		return []any{randomValue(r, depth-1)}
	case n < 6:
		return nil
	default:
		return int64(r.IntN(2))
	}
}

// The difference of two documents turns the first one into the second one, with all nulls, in both forms of patches.
func TestDiff_KeepsNulls(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // each run needs the same documents
	for range 5000 {
		before, after, other := m{"a": randomValue(r, 3)}, m{"a": randomValue(r, 3)}, m{"a": randomValue(r, 3)}
		doc := Diff(before, after)
		text := fmt.Sprint(before, after)
		if d := cmp.Diff(after, doc.Apply(before)); d != "" {
			t.Fatalf("%s: the patch %v makes %s", text, doc, d)
		}
		if d := cmp.Diff(after, applyJSON(t, doc, before)); d != "" {
			t.Fatalf("%s: the JSON patch of %v makes %s", text, doc, d)
		}
		if left := doc.Unapplied(after); len(left) > 0 {
			t.Fatalf("%s: unapplied after the patch: %v", text, left)
		}
		if d := cmp.Diff(doc.Apply(other), applyJSON(t, doc, other)); d != "" {
			t.Fatalf("%s on %v: the JSON patch makes %s", text, other, d)
		}
		if back := doc.CurrentValues(before).Apply(after); !equalWithNulls(back["a"], before["a"]) && !doc.replacesMap(before) {
			t.Fatalf("%s: the earlier values of %v make %v", text, doc, back)
		}
		if fmt.Sprint(before, after) != text {
			t.Fatalf("%s was changed", text)
		}
	}
}

// replacesMap reports whether the patch replaces a map by another value or the reverse. A merge patch of the earlier values does not undo that.
func (p MergePatch) replacesMap(content m) bool {
	for key, value := range p {
		inner, isMap := value.(m)
		fields, wasMap := content[key].(m)
		if isMap != wasMap || isMap && MergePatch(inner).replacesMap(fields) {
			return true
		}
	}
	return false
}

func TestWithoutNulls(t *testing.T) {
	for _, tc := range []struct {
		name    string
		doc     MergePatch
		content m
		want    MergePatch
	}{
		{"a value", MergePatch{"a": Null, "b": "x"}, m{"a": "x"}, MergePatch{"a": nil, "b": "x"}},
		{"an absent field", MergePatch{"a": Null, "b": m{"c": Null}, "d": m{}}, m{}, MergePatch{"d": m{}}},
		{"a stored null", MergePatch{"a": Null}, m{"a": nil}, MergePatch{}},
		{"no null", MergePatch{"a": nil}, m{"a": "x"}, MergePatch{"a": nil}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, tc.doc.WithoutNulls(tc.content)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
