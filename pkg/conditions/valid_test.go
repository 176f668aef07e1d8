package conditions_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

func TestReasonsAreMadeValid(t *testing.T) {
	long := strings.Repeat("a", 1023)
	for in, want := range map[string]string{
		"Up":                     "Up",
		"up":                     "up",
		"Up_And:Running,Fine":    "Up_And:Running,Fine",
		"":                       "Unspecified",
		"!?":                     "Unspecified",
		",:":                     "Unspecified",
		"connection refused":     "ConnectionRefused",
		"exit code: 1":           "ExitCode:1",
		"dial tcp 10.0.0.1:80":   "DialTcp10001:80",
		"404 not found":          "Reason404NotFound",
		"_hidden":                "Reason_hidden",
		"Trailing:":              "Trailing",
		"größe überschritten":    "GrEBerschritten",
		long + "a":               long + "a",
		long + "aa":              "A" + long[1:] + "a",
		long + ":a":              "A" + long[1:],
		"Ends-with-a-new-line\n": "EndsWithANewLine",
	} {
		s := setOf(t, &kind[usual]{})
		s.True("Ready", in, "")
		c, _ := s.Get("Ready")
		if c.Reason != want || !reasonOfTheAPI.MatchString(c.Reason) || len(c.Reason) > 1024 {
			t.Errorf("%.60q has become %.60q, want %.60q", in, c.Reason, want)
		}
	}
}

// As the documentation of metav1.Condition has it.
var reasonOfTheAPI = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

func TestMessagesAreCut(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"short":            {"é", "é"},
		"just right":       {strings.Repeat("é", 32768), strings.Repeat("é", 32768)},
		"too long":         {strings.Repeat("é", 32769), strings.Repeat("é", 32765) + "..."},
		"much too long":    {strings.Repeat("a\n", 1<<20), strings.Repeat("a\n", 16382) + "a..."},
		"broken":           {"a\xff\xfeb", "a\uFFFDb"},
		"long when mended": {strings.Repeat("\xffa", 20000), strings.Repeat("\uFFFDa", 16382) + "\uFFFD..."},
	} {
		s := setOf(t, parse(`{}`))
		s.True("Ready", "R", c.in)
		got, _ := s.Get("Ready")
		if got.Message != c.want || !utf8.ValidString(got.Message) || utf8.RuneCountInString(got.Message) > 32768 {
			t.Errorf("%s: %d characters, ends with %q", name, utf8.RuneCountInString(got.Message), got.Message[max(0, len(got.Message)-9):])
		}
		s.True("Ready", "R", c.in)
		if again, _ := s.Get("Ready"); again != got {
			t.Errorf("%s: the same message again is another one", name)
		}
	}
}

func TestMistakesAreTold(t *testing.T) {
	set := func(conditionType string, status metav1.ConditionStatus) func(s *conditions.Set) {
		return func(s *conditions.Set) { s.Set(metav1.Condition{Type: conditionType, Status: status}) }
	}
	for want, do := range map[string]func(s *conditions.Set){
		"needs a type, such as Ready":                  set("", "True"),
		`the type "not ready" is no valid name: use `:  set("not ready", "True"),
		`the type "-x" is no valid name`:               set("-x", "True"),
		`the type "Example.com/X" is no valid name`:    set("Example.com/X", "True"),
		`the type "X\n" is no valid name`:              set("X\n", "True"),
		"is too long (317): use 316 characters":        set(strings.Repeat("x", 317), "True"),
		`Ready has the status "Yes": use True`:         set("Ready", "Yes"),
		`Ready has the status ""`:                      set("Ready", ""),
		"has a negative observedGeneration (-1)":       func(s *conditions.Set) { s.Set(metav1.Condition{Type: "A", Status: "True", ObservedGeneration: -1}) },
		`the type "a b" is no valid`:                   func(s *conditions.Set) { s.Declare("a b") },
		"the root Ready has nothing to sum up: name":   func(s *conditions.Set) { s.Summarize(conditions.Root{}) },
		"the root Ready cannot depend on itself":       func(s *conditions.Set) { s.Summarize(conditions.Root{Not: []string{"Ready"}}) },
		"nothing is mirrored: name the types":          func(s *conditions.Set) { s.MirrorFrom(nil) },
		"nothing is mirrored: conditions: *conditions": func(s *conditions.Set) { s.MirrorFrom(&kind[struct{}]{}, "A") },
	} {
		s := setOf(t, &kind[usual]{})
		do(s)
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if s.Changed() {
			t.Errorf("%s: something is set: %v", want, s.List())
		}
	}
	s := setOf(t, &kind[usual]{})
	set("a b", "True")(s)
	set("A", "True")(s)
	set("A", "Yes")(s)
	if err := s.Err(); err == nil || strings.Count(err.Error(), "\n") != 1 || !s.Is("A", metav1.ConditionTrue) {
		t.Errorf("the mistakes are not joined, or the rest is not set: %v", err)
	}
	for _, ok := range []string{"Ready", "example.com/Ready", "a", "Is.It_Ready-Yet", strings.Repeat("x", 316)} {
		if err := conditions.CheckType(ok); err != nil {
			t.Error(err)
		}
	}
}
