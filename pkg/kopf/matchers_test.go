package kopf_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Values are shown to matchers in their JSON form; nil is an absent one.
func TestMatchers(t *testing.T) {
	yes, no := kopf.All(), kopf.Any()
	list := []any{"a", int64(1)}
	type pair struct {
		A string `json:"a"`
		B int    `json:"b,omitempty"`
	}
	for _, test := range []struct {
		name    string
		matcher kopf.Matcher
		value   any
		want    bool
	}{
		{"FLT-02 PRESENT", kopf.Present, "x", true},
		{"FLT-02 PRESENT, empty", kopf.Present, "", true},
		{"FLT-02 PRESENT, zero", kopf.Present, int64(0), true},
		{"FLT-02 PRESENT, false", kopf.Present, false, true},
		{"FLT-02 PRESENT, an empty list", kopf.Present, []any{}, true},
		{"FLT-02 PRESENT, but it is absent", kopf.Present, nil, false},
		{"FLT-02 ABSENT", kopf.Absent, nil, true},
		{"FLT-02 ABSENT, but there is an empty one", kopf.Absent, "", false},

		{"FLT-02 FLT-05 a text", kopf.Equal("a"), "a", true},
		{"FLT-02 FLT-05 another text", kopf.Equal("a"), "A", false},
		{"FLT-05 an empty text", kopf.Equal(""), "", true},
		{"FLT-05 an empty text is not absent", kopf.Equal(""), nil, false},
		{"FLT-05 ESS-23 a number", kopf.Equal(1), int64(1), true},
		{"FLT-05 ESS-23 a number of another form", kopf.Equal(1), 1.0, true},
		{"FLT-05 a number is no text", kopf.Equal(1), "1", false},
		{"FLT-05 a boolean", kopf.Equal(false), false, true},
		{"FLT-05 a list", kopf.Equal([]any{"a", 1}), list, true},
		{"FLT-05 a typed list", kopf.Equal([]string{"a"}), []any{"a"}, true},
		{"FLT-05 a list in another order", kopf.Equal([]any{1, "a"}), list, false},
		{"FLT-05 a struct in its JSON form", kopf.Equal(pair{A: "x"}), map[string]any{"a": "x"}, true},
		{"FLT-05 a struct with something else", kopf.Equal(pair{A: "x"}), map[string]any{"a": "x", "c": "y"}, false},

		{"FLT-06 SE-25 a callback gets nil for an absent value", kopf.Match(func(v any) bool { return v == nil }), nil, true},
		{"FLT-05 a callback gets the value", kopf.Match(func(v any) bool { return v == "x" }), "x", true},
		{"FLT-05 a callback that says no", kopf.Match(func(v any) bool { return v == "x" }), "y", false},

		{"FLT-14 not_ of what passes", kopf.Not(yes), nil, false},
		{"FLT-14 not_ of what does not", kopf.Not(no), nil, true},
		{"FLT-14 not_ of a value", kopf.Not(kopf.Equal("a")), "b", true},
		{"FLT-14 not_ of a value that is absent", kopf.Not(kopf.Equal("a")), nil, true},
		{"FLT-14 all_ of none", kopf.All(), "x", true},
		{"FLT-14 all_, and all do", kopf.All(yes, yes), "x", true},
		{"FLT-14 all_, but one does not", kopf.All(yes, no), "x", false},
		{"FLT-14 any_ of none", kopf.Any(), "x", false},
		{"FLT-14 any_, and one does", kopf.Any(no, yes), "x", true},
		{"FLT-14 any_, but none does", kopf.Any(no, no), "x", false},
		{"FLT-14 none_ of none", kopf.None(), "x", true},
		{"FLT-14 none_, and none does", kopf.None(no, no), "x", true},
		{"FLT-14 none_, but one does", kopf.None(no, yes), "x", false},
		{"FLT-14 nested", kopf.All(kopf.Present, kopf.Not(kopf.Any(kopf.Equal("a"), kopf.Equal("b")))), "c", true},
		{"FLT-14 nested, and excluded", kopf.All(kopf.Present, kopf.Not(kopf.Any(kopf.Equal("a"), kopf.Equal("b")))), "b", false},

		{"FLT-08 From of a value", kopf.From("a"), "a", true},
		{"FLT-08 From of another value", kopf.From("a"), "b", false},
		{"FLT-08 From of a matcher", kopf.From(kopf.Absent), nil, true},
		{"FLT-08 To of a value", kopf.To(2), int64(2), true},
		{"FLT-08 To of a matcher", kopf.To(kopf.Not(kopf.Equal(2))), int64(2), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := kopf.Passes(test.matcher, test.value); got != test.want {
				t.Errorf("it passes: %t, want %t", got, test.want)
			}
		})
	}
}

func TestPaths(t *testing.T) {
	for path, want := range map[string][]string{
		"spec":                                {"spec"},
		"spec.size":                           {"spec", "size"},
		"spec.a.b.c":                          {"spec", "a", "b", "c"},
		`metadata.labels.example\.com/tier`:   {"metadata", "labels", "example.com/tier"},
		`metadata.annotations.a\.b\.c.d`:      {"metadata", "annotations", "a.b.c", "d"},
		`\.`:                                  {"."},
		"metadata.labels.with-dash_and/slash": {"metadata", "labels", "with-dash_and/slash"},
	} {
		t.Run(fmt.Sprintf("HND-05 %s", path), func(t *testing.T) {
			got, err := kopf.ParsePath(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the keys (-want +got):\n%s", diff)
			}
		})
	}
	for _, path := range []string{"", ".", "spec.", ".spec", "spec..size"} {
		t.Run(fmt.Sprintf("HND-05 %q is no path", path), func(t *testing.T) {
			if keys, err := kopf.ParsePath(path); err == nil {
				t.Errorf("it is taken for %q, want an error", keys)
			}
		})
	}
}
