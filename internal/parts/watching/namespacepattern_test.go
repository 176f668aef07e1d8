package watching_test

import (
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
)

// SCOPE-04 SCOPE-05 SCOPE-06.
func TestNamespacePattern(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"ns1", "ns1", true},
		{"ns1", "ns12", false},
		{"ns*", "ns1", true},
		{"ns?", "ns12", false},
		{"ns[12]", "ns2", true},
		{"ns[!12]", "ns2", false},
		{"ns[!12]", "ns3", true},
		{"ns2,ns1", "ns1", false},
		{" ns1 , !ns2", "ns1", true},
		{"!ns*,ns1", "ns1", true},
		{"!ns*,ns1", "ns2", false},
		{"!ns*", "other", true},
		{"myapp-*, !*-pr-*, *pr-123", "myapp-pr-123", true},
		{"myapp-*, !*-pr-*, *pr-123", "myapp-pr-456", false},
		{"myapp-*, !*-pr-*, *pr-123", "otherapp-pr-123", false},
	} {
		pattern, err := watching.ParseNamespacePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := pattern.Match(c.name); got != c.want {
			t.Errorf("%q matches %q: %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
}

func TestNamespacePattern_Errors(t *testing.T) {
	for pattern, want := range map[string]string{
		"":          "empty",
		"a,":        "empty",
		"!":         "empty",
		"Team-a":    "lower-case",
		"team_a":    "lower-case",
		"a/b":       "lower-case",
		"team-[a":   "syntax error",
		"a*, B":     "lower-case",
		"team-a b":  "lower-case",
		"team-*,,x": "empty",
	} {
		if _, err := watching.ParseNamespacePattern(pattern); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), pattern) {
			t.Errorf("%q: got the error %v, want one with %q", pattern, err, want)
		}
	}
}

func TestNamespacePattern_Exact(t *testing.T) {
	for text, want := range map[string]bool{"team-a": true, "team-*": false, "team-?": false, "team-[a]": false, "!team-a": false, "team-a, team-b": false} {
		pattern, err := watching.ParseNamespacePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		if name, ok := pattern.Exact(); ok != want || ok && name != text {
			t.Errorf("Exact of %q: %q, %v, want %v", text, name, ok, want)
		}
	}
}
