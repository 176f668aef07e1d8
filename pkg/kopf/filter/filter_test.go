package filter_test

import (
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

// Matchers receive JSON values, and nil for an absent field.
func TestMatchers(t *testing.T) {
	yes, no := filter.All(), filter.Any()
	list := []any{"a", int64(1)}
	type pair struct {
		A string `json:"a"`
		B int    `json:"b,omitempty"`
	}
	for _, test := range []struct {
		name    string
		matcher filter.Matcher
		value   any
		want    bool
	}{
		{"FLT-02 PRESENT", filter.Present, "x", true},
		{"FLT-02 PRESENT, empty", filter.Present, "", true},
		{"FLT-02 PRESENT, zero", filter.Present, int64(0), true},
		{"FLT-02 PRESENT, false", filter.Present, false, true},
		{"FLT-02 PRESENT, an empty list", filter.Present, []any{}, true},
		{"FLT-02 PRESENT, absent", filter.Present, nil, false},
		{"FLT-02 ABSENT", filter.Absent, nil, true},
		{"FLT-02 ABSENT, empty", filter.Absent, "", false},

		{"FLT-02 FLT-05 a string", filter.Equal("a"), "a", true},
		{"FLT-02 FLT-05 another string", filter.Equal("a"), "A", false},
		{"FLT-05 an empty string", filter.Equal(""), "", true},
		{"FLT-05 an empty string, absent", filter.Equal(""), nil, false},
		{"FLT-05 ESS-23 a number", filter.Equal(1), int64(1), true},
		{"FLT-05 ESS-23 a float instead of an integer", filter.Equal(1), 1.0, true},
		{"FLT-05 a string instead of a number", filter.Equal(1), "1", false},
		{"FLT-05 a boolean", filter.Equal(false), false, true},
		{"FLT-05 a list", filter.Equal([]any{"a", 1}), list, true},
		{"FLT-05 a typed list", filter.Equal([]string{"a"}), []any{"a"}, true},
		{"FLT-05 a list in another order", filter.Equal([]any{1, "a"}), list, false},
		{"FLT-05 a struct", filter.Equal(pair{A: "x"}), map[string]any{"a": "x"}, true},
		{"FLT-05 a struct, an additional field", filter.Equal(pair{A: "x"}), map[string]any{"a": "x", "c": "y"}, false},

		{"FLT-06 SE-25 a function receives nil for an absent field", filter.Match(func(v any) bool { return v == nil }), nil, true},
		{"FLT-05 a function receives the value", filter.Match(func(v any) bool { return v == "x" }), "x", true},
		{"FLT-05 a function returns false", filter.Match(func(v any) bool { return v == "x" }), "y", false},

		{"FLT-14 not_ of a match", filter.Not(yes), nil, false},
		{"FLT-14 not_ of a mismatch", filter.Not(no), nil, true},
		{"FLT-14 not_ of another value", filter.Not(filter.Equal("a")), "b", true},
		{"FLT-14 not_ of a value, absent", filter.Not(filter.Equal("a")), nil, true},
		{"FLT-14 all_ without matchers", filter.All(), "x", true},
		{"FLT-14 all_ with matches only", filter.All(yes, yes), "x", true},
		{"FLT-14 all_ with one mismatch", filter.All(yes, no), "x", false},
		{"FLT-14 any_ without matchers", filter.Any(), "x", false},
		{"FLT-14 any_ with one match", filter.Any(no, yes), "x", true},
		{"FLT-14 any_ with mismatches only", filter.Any(no, no), "x", false},
		{"FLT-14 none_ without matchers", filter.None(), "x", true},
		{"FLT-14 none_ with mismatches only", filter.None(no, no), "x", true},
		{"FLT-14 none_ with one match", filter.None(no, yes), "x", false},
		{"FLT-14 nested", filter.All(filter.Present, filter.Not(filter.Any(filter.Equal("a"), filter.Equal("b")))), "c", true},
		{"FLT-14 nested matchers", filter.All(filter.Present, filter.Not(filter.Any(filter.Equal("a"), filter.Equal("b")))), "b", false},

		{"FLT-08 From of a value", filter.From("a"), "a", true},
		{"FLT-08 From of another value", filter.From("a"), "b", false},
		{"FLT-08 From of a matcher", filter.From(filter.Absent), nil, true},
		{"FLT-08 To of a value", filter.To(2), int64(2), true},
		{"FLT-08 To of a matcher", filter.To(filter.Not(filter.Equal(2))), int64(2), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.matcher.Form().Test(test.value); got != test.want {
				t.Errorf("match = %t, want %t", got, test.want)
			}
		})
	}
}
