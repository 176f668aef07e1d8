package eventrecorder_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/eventrecorder"
)

// maxNoteBytes is the limit of the API server.
const maxNoteBytes = 1024

func TestNoteWithDropped(t *testing.T) {
	for text, shown := range map[string]string{
		"": "", "short": "short",
		strings.Repeat("x", 1024): strings.Repeat("x", 1024),
		strings.Repeat("x", 1025): strings.Repeat("x", 510) + "..." + strings.Repeat("x", 511),
	} {
		if got := eventrecorder.NoteWithDropped(text, 0); got != shown {
			t.Errorf("POST-06 note of %q = %q, want %q", text, got, shown)
		}
	}
	for _, unit := range []string{"x", "é", "€", "🙂", "a€"} {
		for n := range 20 {
			for _, dropped := range []int{0, 7, 123456} {
				got := eventrecorder.NoteWithDropped(strings.Repeat("-", n)+strings.Repeat(unit, 1500), dropped)
				if len(got) > maxNoteBytes || len(got) < maxNoteBytes-8 || !utf8.ValidString(got) {
					t.Errorf("POST-06 note of %d dashes and many %s has %d bytes (valid: %v), want a valid note of nearly the maximum length", n, unit, len(got), utf8.ValidString(got))
				}
			}
		}
	}
	for name, broken := range map[string]string{"an invalid byte": "a\xff", "several invalid bytes": "\xff\xfe\xfd-", "an incomplete character": "x\xe2\x82"} {
		text := strings.Repeat(broken, 400)
		data, err := json.Marshal(eventrecorder.NoteWithDropped(text, 3))
		var posted string
		if err == nil {
			err = json.Unmarshal(data, &posted)
		}
		if err != nil || len(posted) > maxNoteBytes || !strings.Contains(posted, "\uFFFD") {
			t.Errorf("POST-06 note with %s has %d bytes and the error %v, want a valid note within the limit", name, len(posted), err)
		}
	}
	if got := eventrecorder.NoteWithDropped("it failed", 12); got != "it failed (before this, 12 other Events about this object were dropped: there were too many)" {
		t.Error(got)
	}
	if got := eventrecorder.TruncateReason(strings.Repeat("R", 500)); len(got) != 128 {
		t.Errorf("truncated reason has %d bytes, want 128", len(got))
	}
}
