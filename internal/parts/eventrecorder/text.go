package eventrecorder

import (
	"fmt"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
)

// The maximum lengths of an Event's texts in bytes.
const (
	maxNoteBytes   = 1024
	maxReasonBytes = 128
)

// NoteWithDropped shortens an Event's note to the maximum length. If Events were dropped, the note ends with their number.
func NoteWithDropped(text string, dropped int) string {
	if dropped == 0 {
		return guard.ShortenText(text, maxNoteBytes)
	}
	suffix := fmt.Sprintf(" (before this, %d other Events about this object were dropped: there were too many)", dropped)
	return guard.ShortenText(text, maxNoteBytes-len(suffix)) + suffix
}

// TruncateReason shortens an Event's reason or action to the maximum length.
func TruncateReason(text string) string { return guard.ShortenText(text, maxReasonBytes) }

// variantOf returns the action for a variant of an Event. The recorder would merge Events that differ only in their notes, and keep the
// first note. The actions of later variants therefore end with a number.
func variantOf(action string, variant int) string {
	if variant == 1 {
		return action
	}
	suffix := fmt.Sprintf(" (%d)", variant)
	return guard.ShortenText(action, maxReasonBytes-len(suffix)) + suffix
}
