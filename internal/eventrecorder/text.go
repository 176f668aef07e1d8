package eventrecorder

import (
	"fmt"

	"github.com/kopf-runtime/kopf-runtime/internal/errtext"
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
		return errtext.Shorten(text, maxNoteBytes)
	}
	suffix := fmt.Sprintf(" (before this, %d other Events about this object were dropped: there were too many)", dropped)
	return errtext.Shorten(text, maxNoteBytes-len(suffix)) + suffix
}

// TruncateReason truncates the reason or the action of an Event to the maximum length.
func TruncateReason(text string) string { return errtext.Shorten(text, maxReasonBytes) }

// variantOf returns the action of a variant of an Event. The recorder merges Events that differ only in their notes into one Event with the first note, so
// the actions of the later variants end with a number.
func variantOf(action string, variant int) string {
	if variant == 1 {
		return action
	}
	suffix := fmt.Sprintf(" (%d)", variant)
	return errtext.Shorten(action, maxReasonBytes-len(suffix)) + suffix
}
