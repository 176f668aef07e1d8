package validation_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubernetes "k8s.io/apimachinery/pkg/util/validation"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

var names = []string{
	"", "a", "A", "a b", "a/b", "A/b", "a/", "/a", "a/b/c", "-a", "a-", "a.b", "a..b", ".a", "a.", "a_b", "ä", "a\x00", "a\xff", "_",
	"example.com/my own", "example.com/Name", "Example.com/name", "ex..ample/name", "ex.-ample/name", "-/a", "a-.b",
	strings.Repeat("a", 63), strings.Repeat("a", 64), "a/" + strings.Repeat("a", 64), strings.Repeat("a", 254), strings.Repeat("a", 254) + "/a",
}

// The checks reject the same names as the API server.
func TestNames_RejectTheSameNamesAsTheAPIServer(t *testing.T) {
	for _, check := range []struct {
		name   string
		ours   func(string) error
		theirs func(string) []string
	}{
		{"QualifiedName", validation.QualifiedName, kubernetes.IsQualifiedName},
		{"LabelValue", validation.LabelValue, kubernetes.IsValidLabelValue},
		{"Subdomain", validation.Subdomain, kubernetes.IsDNS1123Subdomain},
		{"DNSLabel", validation.DNSLabel, kubernetes.IsDNS1123Label},
	} {
		for _, name := range names {
			err, problems := check.ours(name), check.theirs(name)
			if (err != nil) != (len(problems) > 0) {
				t.Errorf("%s(%q) = %v, want the verdict of the API server: %q", check.name, name, err, problems)
			}
			if err != nil && (strings.Contains(err.Error(), "regex") || strings.Contains(err.Error(), "[")) {
				t.Errorf("%s(%q) quotes a regular expression: %s", check.name, name, err)
			}
		}
	}
}

func TestNames_ExplainTheViolation(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{validation.QualifiedName(""), "it is empty: use letters, digits, '-', '_' and '.'"},
		{validation.QualifiedName("a b"), "it contains ' ': use letters, digits, '-', '_' and '.'"},
		{validation.QualifiedName("größe"), "it contains 'ö': use letters, digits, '-', '_' and '.'"},
		{validation.QualifiedName("a/b/c"), "it has more than one '/': use a name, or a domain and a name, such as example.com/name"},
		{validation.QualifiedName("Example.com/a"), "the domain before the '/' is not valid: it contains 'E': use lower-case letters, digits, '-' and '.'"},
		{validation.QualifiedName("/a"), "the domain before the '/' is not valid: it is empty: use lower-case letters, digits, '-' and '.'"},
		{validation.QualifiedName("example.com/"), "the name after the '/' is not valid: it is empty: use letters, digits, '-', '_' and '.'"},
		{validation.QualifiedName(strings.Repeat("a", 70)), "it has 70 characters: use at most 63"},
		{validation.LabelValue("-a"), "it begins with '-': begin with a letter or a digit"},
		{validation.LabelValue("a."), "it ends with '.': end with a letter or a digit"},
		{validation.Subdomain("a..b"), "a part next to a '.' does not begin and end with a letter or a digit: correct it"},
		{validation.DNSLabel("my.space"), "it contains '.': use lower-case letters, digits and '-'"},
		{
			validation.Selector(&metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c", "d": "e f"}}),
			"the key \"a b\" is not valid: it contains ' ': use letters, digits, '-', '_' and '.'\n" +
				"the value \"e f\" of \"d\" is not valid: it contains ' ': use letters, digits, '-', '_' and '.'",
		},
	} {
		if test.err == nil || test.err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", test.err, test.want)
		}
	}
	if err := validation.Selector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}); err == nil {
		t.Error("got no error for an unknown operator")
	}
	if err := validation.Selector(nil); err != nil {
		t.Error(err)
	}
}

func TestDurationUnit_NamesTheUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		5:                     "5ns; durations need a unit: 5*time.Second",
		999:                   "999ns; durations need a unit: 999*time.Second",
		30 * time.Microsecond: "30µs, which is less than 1ms; durations need a unit, such as 30*time.Second",
	} {
		if err := validation.DurationUnit(d); err == nil || err.Error() != want {
			t.Errorf("DurationUnit(%d) = %v, want %s", d, err, want)
		}
	}
	for _, d := range []time.Duration{-1, 0, time.Millisecond, time.Hour} {
		if err := validation.DurationUnit(d); err != nil {
			t.Errorf("DurationUnit(%s) = %v, want no error", d, err)
		}
	}
}

func TestClosest(t *testing.T) {
	for _, test := range []struct {
		word       string
		candidates []string
		want       string
	}{
		{"Databse", []string{"User", "Database"}, "Database"},
		{"databases", []string{"Data", "Database"}, "Database"},
		{"database", []string{"Databases", "Database"}, "Database"},
		{"sise", []string{"site", "size"}, "site"},
		{"Size", []string{"sise", "size"}, "size"},
		{"sepc", []string{"status", "spec"}, "spec"},
		{"ab", []string{"xy"}, ""},
		{"a", []string{"b"}, "b"},
		{"Pod", []string{"Node", "Secret"}, ""},
		{"spec", nil, ""},
	} {
		if got, _ := validation.Closest(test.word, test.candidates); got != test.want {
			t.Errorf("Closest(%q, %q) is %q, want %q", test.word, test.candidates, got, test.want)
		}
	}
}
