package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
)

// Names, errors and Events can contain any text, and must not control the terminal or add lines.
func TestWrite_EscapesControlCharacters(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	hostile := "a\x1b[31mred\nHANDLER\tb\r\u202ec"
	x := explain.Explanation{
		Kind: "Database", Namespace: "shop", Name: "orders", Time: now, Cause: "update", Changed: []string{"data.\x1b]0;title"}, Waits: []string{hostile}, Unknown: []string{hostile},
		Handlers: []explain.Handler{{ID: "resize", State: explain.Waiting, LastError: hostile}},
		Events:   []explain.Event{{Time: now, Type: "Warning", Reason: "Failed", Message: hostile}},
	}
	var out strings.Builder
	if err := x.Write(&out); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\r\t\u202e") {
		t.Errorf("the text contains control characters: %q", out.String())
	}
	if lines := strings.Count(out.String(), "\n"); lines != 6 {
		t.Errorf("got %d lines, want 6:\n%s", lines, out.String())
	}
}
