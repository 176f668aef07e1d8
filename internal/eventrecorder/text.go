package eventrecorder

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The greatest lengths of the texts of an Event, in bytes.
const (
	MaxNoteBytes   = 1024
	maxReasonBytes = 128
)

// Note is the text of an Event. It says how many were not posted before it.
func FormatNote(text string, unsaid int) string {
	if unsaid == 0 {
		return truncate(text, MaxNoteBytes)
	}
	rest := fmt.Sprintf(" (before this, %d more were not posted: there are too many about this object)", unsaid)
	return truncate(text, MaxNoteBytes-len(rest)) + rest
}

// Word is a reason, or an action.
func TruncateReason(text string) string { return truncate(text, maxReasonBytes) }

// Shortened cuts a text in the middle, as the beginning and the end of an error tell most, and never a character. Bytes that are
// none are replaced first: they would be in JSON, by more bytes than they were.
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
