package conditions_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

func TestSet_ConvertsReasons(t *testing.T) {
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
		s := setOf(t, &kind[standardList]{})
		s.True("Ready", in, "")
		c, _ := s.Get("Ready")
		if c.Reason != want || !reasonOfTheAPI.MatchString(c.Reason) || len(c.Reason) > 1024 {
			t.Errorf("reason for %.60q = %.60q, want %.60q", in, c.Reason, want)
		}
	}
}

// reasonOfTheAPI is the pattern that metav1.Condition documents.
var reasonOfTheAPI = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

func TestSet_TruncatesMessages(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"short":                          {"é", "é"},
		"at the limit":                   {strings.Repeat("é", 32768), strings.Repeat("é", 32768)},
		"too long":                       {strings.Repeat("é", 32769), strings.Repeat("é", 32765) + "..."},
		"much too long":                  {strings.Repeat("a\n", 1<<20), strings.Repeat("a\n", 16382) + "a..."},
		"invalid UTF-8":                  {"a\xff\xfeb", "a\uFFFDb"},
		"too long after the replacement": {strings.Repeat("\xffa", 20000), strings.Repeat("\uFFFDa", 16382) + "\uFFFD..."},
	} {
		s := setOf(t, parse(`{}`))
		s.True("Ready", "R", c.in)
		got, _ := s.Get("Ready")
		if got.Message != c.want || !utf8.ValidString(got.Message) || utf8.RuneCountInString(got.Message) > 32768 {
			t.Errorf("%s: got %d characters that end with %q, want %d characters that end with %q", name,
				utf8.RuneCountInString(got.Message), got.Message[max(0, len(got.Message)-9):], utf8.RuneCountInString(c.want), c.want[max(0, len(c.want)-9):])
		}
		s.True("Ready", "R", c.in)
		if again, _ := s.Get("Ready"); again != got {
			t.Errorf("%s: setting the same message again is a change", name)
		}
	}
}

func TestSet_Err(t *testing.T) {
	set := func(conditionType string, status metav1.ConditionStatus) func(s *conditions.Set) {
		return func(s *conditions.Set) { s.Set(metav1.Condition{Type: conditionType, Status: status}) }
	}
	for want, do := range map[string]func(s *conditions.Set){
		"the condition type is empty: set a type such as Ready":  set("", "True"),
		`invalid type "not ready": use `:                         set("not ready", "True"),
		`invalid type "-x"`:                                      set("-x", "True"),
		`invalid type "Example.com/X"`:                           set("Example.com/X", "True"),
		`invalid type "X\n"`:                                     set("X\n", "True"),
		"has 317 characters: use at most 316":                    set(strings.Repeat("x", 317), "True"),
		`Ready has the invalid status "Yes": use True`:           set("Ready", "Yes"),
		`Ready has the invalid status ""`:                        set("Ready", ""),
		"observedGeneration of A must not be negative, got -1":   func(s *conditions.Set) { s.Set(metav1.Condition{Type: "A", Status: "True", ObservedGeneration: -1}) },
		`invalid type "a b"`:                                     func(s *conditions.Set) { s.Declare("a b") },
		"root condition Ready summarizes no conditions":          func(s *conditions.Set) { s.Summarize(conditions.Root{}) },
		"root condition Ready cannot depend on itself":           func(s *conditions.Set) { s.Summarize(conditions.Root{Not: []string{"Ready"}}) },
		"cannot mirror conditions: no condition types given":     func(s *conditions.Set) { s.MirrorFrom(nil) },
		"cannot mirror conditions: conditions: type *conditions": func(s *conditions.Set) { s.MirrorFrom(&kind[struct{}]{}, "A") },
	} {
		s := setOf(t, &kind[standardList]{})
		do(s)
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if s.Changed() {
			t.Errorf("%s: got conditions %v, want none", want, s.List())
		}
	}
	s := setOf(t, &kind[standardList]{})
	set("a b", "True")(s)
	set("A", "True")(s)
	set("A", "Yes")(s)
	if err := s.Err(); err == nil || strings.Count(err.Error(), "\n") != 1 || !s.Is("A", metav1.ConditionTrue) {
		t.Errorf("Err = %v, want both errors, and A set", err)
	}
	for _, ok := range []string{"Ready", "example.com/Ready", "a", "Is.It_Ready-Yet", strings.Repeat("x", 316)} {
		if err := conditions.CheckType(ok); err != nil {
			t.Error(err)
		}
	}
}
