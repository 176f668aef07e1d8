package progress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// A Record is what is remembered of one handler while its cause is being handled. It lives on the
// object, under a key of its own, and is wire-compatible with kopf's: each side can continue what
// the other began.
//
// The zero value is the record of a handler that nothing is known of.
type Record struct {
	// Started is when the handler was first selected for the cause.
	Started time.Time
	// Stopped is when it succeeded or failed for good; zero until then.
	Stopped time.Time
	// Delayed is the moment before which it must not be called again; zero when it may be called now.
	Delayed time.Time
	// Attempted is when the last attempt ended, by the clock that Delayed is of: the difference is the length of the delay.
	// It is zero if Delayed is, and in records of kopf and of earlier versions.
	Attempted time.Time
	// Purpose is the cause the record belongs to ("create", "update", "delete", "resume", or any
	// word of a caller of [Run]). Empty in records of very old operators: they fit every cause.
	Purpose string
	// Retries counts the attempts that were made, the successful one included.
	Retries int
	// Success and Failure say how it ended; both are false while it has not.
	Success, Failure bool
	// Message is the text of the last attempt's error, cut at 1024 bytes.
	Message string
	// Subrefs names the sub-handlers of any depth that were ever seen below this handler.
	Subrefs []string
}

// Finished reports whether the handler succeeded or failed for good.
func (r Record) Finished() bool { return r.Success || r.Failure }

// Due reports whether the handler is to be called at the given time.
func (r Record) Due(now time.Time) bool { return !r.Finished() && !r.Delayed.After(now) }

// Waits reports whether the handler has done its part, and waits for its sub-handlers.
func (r Record) Waits() bool {
	return !r.Finished() && len(r.Subrefs) > 0 && !r.Delayed.IsZero() && r.Message == ""
}

// Attempt tells the handler where it stands.
func (r Record) Attempt() Attempt {
	return Attempt{Number: r.Retries, Started: r.Started, Last: r.Message}
}

// synchronized returns the record by a clock that shows the given time. Times of the past that are in the future prove that the
// clock of the writer was ahead, by their distance at least. All times are moved back by that, so no delay is longer than it was.
func (r Record) synchronized(now time.Time) Record {
	written := r.Started
	if r.Attempted.After(written) {
		written = r.Attempted
	}
	if r.Finished() || !written.After(now) {
		return r
	}
	for _, t := range []*time.Time{&r.Started, &r.Attempted, &r.Delayed} {
		if !t.IsZero() {
			*t = now.Add(t.Sub(written)) // both may be too far from now for a duration
		}
	}
	return r
}

// wireRecord is a [Record] as it is written: the order of the fields is kopf's.
type wireRecord struct {
	Started *string  `json:"started,omitempty"`
	Stopped *string  `json:"stopped,omitempty"`
	Delayed *string  `json:"delayed,omitempty"`
	Purpose *string  `json:"purpose,omitempty"`
	Retries int      `json:"retries"`
	Success bool     `json:"success"`
	Failure bool     `json:"failure"`
	Message *string  `json:"message,omitempty"`
	Subrefs []string `json:"subrefs,omitempty"`

	// Attempted is not a field of kopf, which ignores it and drops it with its next write of the record.
	Attempted *string `json:"attempted,omitempty"`
}

// MarshalJSON writes the record in kopf's form: compact, empty fields left out, times in UTC with
// six fractional digits.
func (r Record) MarshalJSON() ([]byte, error) {
	wire := wireRecord{
		Started: wireTime(r.Started),
		Stopped: wireTime(r.Stopped),
		Delayed: wireTime(r.Delayed),
		Purpose: wireString(r.Purpose),
		Retries: r.Retries,
		Success: r.Success,
		Failure: r.Failure,
		Message: wireString(r.Message),
		Subrefs: slices.Compact(slices.Sorted(slices.Values(r.Subrefs))),

		Attempted: wireTime(r.Attempted),
	}
	return EncodeJSON(wire)
}

// UnmarshalJSON reads a record of any version of kopf: unknown keys are passed over, nulls are
// absent, times may have any offset and mean UTC without one.
func (r *Record) UnmarshalJSON(text []byte) error {
	// Not into a struct: that would take keys which differ in their case for known ones.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	var out Record
	var retries float64
	err := errors.Join(
		readTime(fields["started"], &out.Started),
		readTime(fields["stopped"], &out.Stopped),
		readTime(fields["delayed"], &out.Delayed),
		read(fields["purpose"], &out.Purpose),
		read(fields["retries"], &retries),
		read(fields["success"], &out.Success),
		read(fields["failure"], &out.Failure),
		read(fields["message"], &out.Message),
		read(fields["subrefs"], &out.Subrefs),
	)
	if readTime(fields["attempted"], &out.Attempted) != nil || out.Delayed.IsZero() {
		out.Attempted = time.Time{} // kopf reads the record without it, too
	}
	if err != nil {
		return err
	}
	if retries < 0 || retries > maxCount || retries != math.Trunc(retries) {
		return fmt.Errorf("retries: %v is no count", retries)
	}
	out.Retries = int(retries)
	*r = out
	return nil
}

// maxCount is the greatest number up to which JSON counts exactly everywhere.
const maxCount = 1 << 53

func read[T any](text json.RawMessage, into *T) error {
	if text == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

func readTime(text json.RawMessage, into *time.Time) error {
	var value *string
	if err := read(text, &value); err != nil || value == nil {
		return err
	}
	t, err := parseTime(*value)
	*into = t
	return err
}

// decodeRecord reads a stored record; nil for a stored null.
func decodeRecord(text []byte) (*Record, error) {
	if bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		return nil, nil
	}
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	return &r, nil
}

const wireTimeLayout = "2006-01-02T15:04:05.000000-07:00"

func wireTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Format(wireTimeLayout))
}

// The forms of ISO 8601 that appear in records; those without an offset are read as UTC.
// A fraction of a second is accepted after the seconds of any of them.
var timeLayouts = []string{
	time.RFC3339,
	"2006-01-02T15:04:05Z0700",
	"2006-01-02T15:04:05Z07",
	"2006-01-02T15:04:05",
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05",
	"20060102T150405Z0700",
	"20060102T150405",
	"2006-01-02T15:04Z07:00",
	"2006-01-02T15:04",
	"2006-01-02",
}

func parseTime(text string) (time.Time, error) {
	for _, layout := range timeLayouts {
		t, err := time.Parse(layout, text)
		if t = t.UTC(); err == nil && t.Year() >= 1 && t.Year() <= 9999 {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not an ISO 8601 time", text)
}

func wireString(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
