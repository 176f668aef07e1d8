package eventrecorder

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The maximum lengths of the texts of an Event in bytes.
const (
	maxNoteBytes   = 1024
	maxReasonBytes = 128
)

// NoteWithDropped returns the note of an Event, truncated to the maximum length. If dropped is positive, the note ends with the number of dropped
// Events.
func NoteWithDropped(text string, dropped int) string {
	if dropped == 0 {
		return truncate(text, maxNoteBytes)
	}
	suffix := fmt.Sprintf(" (before this, %d other Events about this object were dropped: there were too many)", dropped)
	return truncate(text, maxNoteBytes-len(suffix)) + suffix
}

// TruncateReason truncates the reason or the action of an Event to the maximum length.
func TruncateReason(text string) string { return truncate(text, maxReasonBytes) }

// truncate removes the middle of a text, because the beginning and the end of an error are the most important parts. It does not split characters. It
// first replaces invalid UTF-8, because the JSON encoding would replace it with a longer text.
func truncate(text string, limit int) string {
	const gap = "..."
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if len(text) <= limit {
		return text
	}
	head := (limit - len(gap)) / 2
	tail := len(text) - (limit - len(gap) - head)
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + gap + text[tail:]
}
