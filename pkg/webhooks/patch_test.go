package webhooks_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// applyPatch returns the patch and its result. The API server uses the same patch library.
func applyPatch(tb testing.TB, raw, before, after string) (ops, result string) {
	tb.Helper()
	patch, err := webhooks.ComputePatch([]byte(raw), []byte(before), []byte(after))
	if err != nil {
		tb.Fatalf("%s → %s on %s: %v", before, after, raw, err)
	}
	text, err := json.Marshal(patch)
	if err != nil {
		tb.Fatal(err)
	}
	if len(patch) == 0 {
		return "", raw
	}
	decoded, err := jsonpatch.DecodePatch(text)
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	out, err := decoded.Apply([]byte(raw))
	if err != nil {
		tb.Fatalf("%s on %s: %v", text, raw, err)
	}
	return string(text), string(out)
}

// ADM-14, PATCH-11: before and after have only the fields of the Go type. raw is the whole object.
func TestComputePatch(t *testing.T) {
	for name, c := range map[string]struct{ raw, before, after, want, ops string }{
		"no change":                                   {`{"a":1,"x":2}`, `{"a":1,"b":{}}`, `{"a":1,"b":{}}`, `{"a":1,"x":2}`, ``},
		"a value":                                     {`{"a":1,"x":2}`, `{"a":1}`, `{"a":3}`, `{"a":3,"x":2}`, `[{"op":"replace","path":"/a","value":3}]`},
		"an added field":                              {`{"x":2}`, `{}`, `{"a":3}`, `{"a":3,"x":2}`, `[{"op":"add","path":"/a","value":3}]`},
		"a removed field":                             {`{"a":1,"x":2}`, `{"a":1}`, `{}`, `{"x":2}`, `[{"op":"remove","path":"/a"}]`},
		"an absent field decoded as empty":            {`{"x":2}`, `{"s":{"size":0}}`, `{"s":{"size":0,"c":"r"}}`, `{"x":2,"s":{"size":0,"c":"r"}}`, ``},
		"an absent field decoded as zero":             {`{"s":{"x":1}}`, `{"s":{"size":0}}`, `{"s":{"size":4}}`, `{"s":{"x":1,"size":4}}`, ``},
		"an omitted empty field":                      {`{"a":"","x":1}`, `{}`, `{"a":"v"}`, `{"a":"v","x":1}`, ``},
		"a null":                                      {`{"a":null}`, `{}`, `{"a":1}`, `{"a":1}`, ``},
		"a null is kept":                              {`{"a":null,"b":1}`, `{"b":1}`, `{"b":2}`, `{"a":null,"b":2}`, ``},
		"a field set to null":                         {`{"a":1,"x":2}`, `{"a":1}`, `{"a":null}`, `{"a":null,"x":2}`, `[{"op":"replace","path":"/a","value":null}]`},
		"an added null":                               {`{"s":{"x":1}}`, `{"s":{}}`, `{"s":{"a":null}}`, `{"s":{"x":1,"a":null}}`, `[{"op":"add","path":"/s/a","value":null}]`},
		"a null in a new map":                         {`{}`, `{}`, `{"s":{"a":null}}`, `{"s":{"a":null}}`, ``},
		"a null in an item":                           {`{"l":[{"x":1}]}`, `{"l":[{}]}`, `{"l":[{"a":null}]}`, `{"l":[{"x":1,"a":null}]}`, ``},
		"a null that the handler removes":             {`{"a":null,"x":1}`, `{"a":null}`, `{}`, `{"x":1}`, ``},
		"keys with special characters":                {`{"a/b~c":{"x":1}}`, `{"a/b~c":{}}`, `{"a/b~c":{"y":1}}`, `{"a/b~c":{"x":1,"y":1}}`, ``},
		"an empty key":                                {`{"":1}`, `{"":1}`, `{"":2}`, `{"":2}`, ``},
		"big numbers":                                 {`{"a":9007199254740993,"b":1}`, `{"a":9007199254740993,"b":1}`, `{"a":9007199254740993,"b":9007199254740995}`, `{"a":9007199254740993,"b":9007199254740995}`, ``},
		"another type of value":                       {`{"a":{"x":1}}`, `{"a":{}}`, `{"a":[1]}`, `{"a":[1]}`, ``},
		"an appended item":                            {`{"l":[{"n":1,"x":1}]}`, `{"l":[{"n":1}]}`, `{"l":[{"n":1},{"n":2}]}`, `{"l":[{"n":1,"x":1},{"n":2}]}`, `[{"op":"add","path":"/l/1","value":{"n":2}}]`},
		"an item inserted at the front":               {`{"l":[{"n":1,"x":1}]}`, `{"l":[{"n":1}]}`, `{"l":[{"n":2},{"n":1}]}`, `{"l":[{"n":2},{"n":1,"x":1}]}`, `[{"op":"add","path":"/l/0","value":{"n":2}}]`},
		"an item removed from the middle":             {`{"l":[{"n":1,"x":1},{"n":2,"x":2},{"n":3,"x":3}]}`, `{"l":[{"n":1},{"n":2},{"n":3}]}`, `{"l":[{"n":1},{"n":3}]}`, `{"l":[{"n":1,"x":1},{"n":3,"x":3}]}`, `[{"op":"remove","path":"/l/1"}]`},
		"an item changed in place":                    {`{"l":[{"n":1,"x":1}]}`, `{"l":[{"n":1}]}`, `{"l":[{"n":5}]}`, `{"l":[{"n":5,"x":1}]}`, `[{"op":"replace","path":"/l/0/n","value":5}]`},
		"items changed and moved, matched by name":    {`{"l":[{"name":"a","x":1},{"name":"b","x":2}]}`, `{"l":[{"name":"a"},{"name":"b"}]}`, `{"l":[{"name":"c"},{"name":"b","y":1}]}`, `{"l":[{"name":"c"},{"name":"b","x":2,"y":1}]}`, ``},
		"a list of which the Go type has only a part": {`{"l":[1,2,3]}`, `{"l":[1]}`, `{"l":[1,4]}`, `{"l":[1,4]}`, ``},
		"an absent list":                              {`{}`, `{"l":null}`, `{"l":["a"]}`, `{"l":["a"]}`, ``},
		"an emptied list":                             {`{"l":[1,2]}`, `{"l":[1,2]}`, `{"l":[]}`, `{"l":[]}`, ``},
	} {
		ops, result := applyPatch(t, c.raw, c.before, c.after)
		g := NewWithT(t)
		g.Expect(result).To(MatchJSON(c.want), name)
		if c.ops != "" {
			g.Expect(ops).To(MatchJSON(c.ops), name)
		}
	}
}

// Patches of long lists are computed quickly and are not larger than the list.
func TestComputePatch_LongLists(t *testing.T) {
	g := NewWithT(t)
	const n = 20_000
	list := func(element func(i int) string) string {
		elements := make([]string, n)
		for i := range elements {
			elements[i] = element(i)
		}
		return `{"l":[` + strings.Join(elements, ",") + `]}`
	}
	named := func(i int) string { return fmt.Sprintf(`{"name":"e%d"}`, i) }
	raw := list(func(i int) string { return fmt.Sprintf(`{"name":"e%d","x":%d}`, i, i) })
	for name, c := range map[string]struct{ after, want string }{
		"all items changed": {
			list(func(i int) string { return fmt.Sprintf(`{"name":"e%d","y":1}`, i) }),
			list(func(i int) string { return fmt.Sprintf(`{"name":"e%d","x":%d,"y":1}`, i, i) }),
		},
		"all items in reverse order": {
			list(func(i int) string { return named(n - 1 - i) }),
			list(func(i int) string { return fmt.Sprintf(`{"name":"e%d","x":%d}`, n-1-i, n-1-i) }),
		},
		"all items replaced": {list(strconv.Itoa), list(strconv.Itoa)},
		"an emptied list":    {`{"l":[]}`, `{"l":[]}`},
	} {
		ops, result := applyPatch(t, raw, list(named), c.after)
		g.Expect(len(ops)).To(BeNumerically("<", len(c.want)+100), name)
		if result != c.want { // the values are too long for a diff
			t.Errorf("%s: the result of the patch differs from the object", name)
		}
	}
}

func TestComputePatch_NotAnObject(t *testing.T) {
	g := NewWithT(t)
	for _, texts := range [][3]string{{`{`, `{}`, `{}`}, {`{}`, `{`, `{}`}, {`{}`, `{}`, ``}, {`{}`, `{}`, `[1]`}} {
		_, err := webhooks.ComputePatch([]byte(texts[0]), []byte(texts[1]), []byte(texts[2]))
		g.Expect(err).To(HaveOccurred(), "%q", texts)
	}
}

// FuzzPatch checks that the patch always applies. If the Go type has all fields, the result must be the object of the
// handler.
func FuzzPatch(f *testing.F) {
	f.Add(`{"a":[1,{"name":"x"}]}`, `{"a":[{"name":"x","y":2},1]}`, uint64(1))
	f.Add(`{"":null,"a/b":{}}`, `{"a/b":{"~":1.0}}`, uint64(2))
	f.Add(`{"a":{"b":1},"l":[{}]}`, `{"a":{"b":null,"c":null},"l":[{"d":null}]}`, uint64(3))
	f.Fuzz(func(t *testing.T, is, wanted string, seed uint64) {
		var a, b map[string]any
		if json.Unmarshal([]byte(is), &a) != nil || json.Unmarshal([]byte(wanted), &b) != nil || a == nil || b == nil {
			return
		}
		isText, _ := json.Marshal(a)
		wantedText, _ := json.Marshal(b)
		_, result := applyPatch(t, string(isText), string(isText), string(wantedText))
		var got any
		must(json.Unmarshal([]byte(result), &got))
		gotText, _ := json.Marshal(got)
		if string(gotText) != string(wantedText) {
			t.Fatalf("result = %s, want %s", gotText, wantedText)
		}
		rnd := rand.New(rand.NewPCG(seed, 1))
		more, _ := json.Marshal(withUnknownFields(rnd, a))
		applyPatch(t, string(more), string(isText), string(wantedText))
	})
}

// withUnknownFields adds fields unknown to the Go type, and removes some fields that decode as empty.
func withUnknownFields(rnd *rand.Rand, value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{"unknown" + strconv.Itoa(rnd.IntN(3)): true}
		for key, v := range value {
			if rnd.IntN(8) > 0 {
				out[key] = withUnknownFields(rnd, v)
			}
		}
		return out
	case []any:
		var out []any
		for _, v := range value {
			out = append(out, withUnknownFields(rnd, v))
		}
		return out
	default:
		return value
	}
}
