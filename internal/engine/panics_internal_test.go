package engine

import (
	"errors"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestPanicChangeOf(t *testing.T) {
	panicked := func(value any) error { return &progress.PanicError{Value: value, Stack: []byte("goroutine 1")} }
	for name, test := range map[string]struct {
		outcome progress.Outcome
		text    string
		ok      bool
	}{
		"a panic":               {progress.Outcome{Err: panicked("boom")}, "boom", true},
		"a panic with an error": {progress.Outcome{Err: panicked(errors.New("boom"))}, "boom", true},
		"a permanent panic":     {progress.Outcome{Err: progress.Permanent(panicked("boom")), Final: true}, "boom", true},
		"several lines":         {progress.Outcome{Err: panicked("\nboom\nmore")}, "boom", true},
		"a long text":           {progress.Outcome{Err: panicked(strings.Repeat("ä", 300))}, strings.Repeat("ä", 199) + "…", true},
		"a success":             {progress.Outcome{Success: true, Final: true}, "", true},
		"an ignored error":      {progress.Outcome{Success: true, Final: true, Err: errors.New("no")}, "", false},
		"an ignored panic":      {progress.Outcome{Success: true, Final: true, Err: panicked("boom")}, "boom", true},
		"an error":              {progress.Outcome{Err: errors.New("no")}, "", false},
		"an interruption":       {progress.Outcome{Interrupted: true}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			change, ok := panicChangeOf("a", test.outcome)
			if ok != test.ok || ok && change != (panicChange{"a", test.text}) {
				t.Errorf("%+v, %v, want the text %q, %v", change, ok, test.text, test.ok)
			}
		})
	}
}

func TestParsePanics(t *testing.T) {
	condition := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: "Degraded", Status: status, Reason: reason, Message: message}
	}
	for _, panics := range []map[string]string{
		{},
		{"a": "boom"},
		{"a": "boom", "b/sub": `runtime error: handler "c" panicked: x`, `with "quotes"`: ""},
	} {
		if got := parsePanics(condition(metav1.ConditionTrue, reasonPanicked, formatPanics(panics))); !maps.Equal(got, panics) {
			t.Errorf("%q is parsed as %q, want %q", formatPanics(panics), got, panics)
		}
	}
	const message = `handler "a" panicked: boom`
	for name, c := range map[string]metav1.Condition{
		"another status":       condition(metav1.ConditionFalse, reasonPanicked, message),
		"another reason":       condition(metav1.ConditionTrue, "Other", message),
		"another message":      condition(metav1.ConditionTrue, reasonPanicked, "text"),
		"an unterminated name": condition(metav1.ConditionTrue, reasonPanicked, `handler "a panicked: boom`),
	} {
		if got := parsePanics(c); len(got) > 0 {
			t.Errorf("%s: %q, want no panics", name, got)
		}
	}
}

func TestFormatPanics_LimitsHandlers(t *testing.T) {
	panics := map[string]string{}
	for id := range strings.SplitSeq("abcdefghijklmno", "") {
		panics[id] = "boom"
	}
	if lines := strings.Split(formatPanics(panics), "\n"); len(lines) != maxPanics || lines[0] != `handler "a" panicked: boom` {
		t.Errorf("%q, want %d lines", lines, maxPanics)
	}
}
