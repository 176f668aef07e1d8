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

// A Record is the stored progress of one handler for one cause. Each record is stored on the object under its own key, in kopf's format, so
// kopf and this library can continue each other's handlers.
//
// The zero value is the record of a handler that was never selected.
type Record struct {
	// Started is when the handler was first selected. It stays the same if the cause changes before the handler has finished.
	Started time.Time
	// Stopped is when the handler succeeded or failed permanently; zero before that.
	Stopped time.Time
	// Delayed is the earliest time of the next attempt; zero if there is no delay. A time more than [MaxDelay] in the future is ignored.
	Delayed time.Time
	// Attempted is when the last attempt ended, by the clock that computed Delayed, so the delay is Delayed minus Attempted. It is zero if
	// Delayed is zero, and in records written by kopf, [Status] or earlier versions.
	Attempted time.Time
	// Purpose is kopf's name for the cause of the record: "create", "update", "delete", "resume", "noop" for a call on request, or the cause
	// given to [Run]. Old versions of kopf don't write it. A record without a Purpose matches any cause.
	Purpose string
	// Retries is the number of attempts so far, including a successful one.
	Retries int
	// Success and Failure report the result. Both are false while the handler is unfinished.
	Success, Failure bool
	// Message is the error of the last attempt, cut at 1024 bytes. It is empty after a success.
	Message string
	// Subrefs lists the ids of all sub-handlers, at any depth, that the handler has ever declared.
	Subrefs []string
}

// Finished reports whether the handler has succeeded or failed permanently.
func (r Record) Finished() bool { return r.Success || r.Failure }

// MaxDelay is the longest delay between two attempts. Handlers that ask for more get MaxDelay. A stored delay that ends later is ignored,
// because otherwise a faulty or forged record could block an object for years.
const MaxDelay = 30 * 24 * time.Hour

// Due reports whether the handler may be called at the given time.
func (r Record) Due(now time.Time) bool { return !r.Finished() && r.wait(now) == 0 }

// wait returns the time until the next attempt; 0 if there is no delay, or if it is longer than any that an operator would store.
func (r Record) wait(now time.Time) time.Duration {
	if left := r.Delayed.Sub(now); left <= MaxDelay {
		return max(0, left)
	}
	return 0
}

// WaitsForSubs reports whether the handler itself has finished and waits for its sub-handlers.
func (r Record) WaitsForSubs() bool {
	return !r.Finished() && len(r.Subrefs) > 0 && !r.Delayed.IsZero() && r.Message == ""
}

// Attempt describes the next attempt for the handler.
func (r Record) Attempt() Attempt {
	return Attempt{Number: r.Retries, Started: asStored(r.Started), Last: r.Message}
}

// withStoredTimes returns the record with the times that a store would return, so that they don't depend on whether the record was stored
// in the meantime.
func (r Record) withStoredTimes() Record {
	for _, t := range []*time.Time{&r.Started, &r.Stopped, &r.Delayed, &r.Attempted} {
		*t = asStored(*t)
	}
	return r
}

// asStored returns a time in UTC, in whole microseconds, and without a monotonic clock reading.
func asStored(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Microsecond)
}

// withoutClockSkew corrects the times of an unfinished record whose writer had a clock ahead of ours. Started and Attempted can't have been
// in the future when they were written. So if one of them is in the future by our clock, withoutClockSkew moves all times back by the
// difference. This way, no delay becomes longer.
func (r Record) withoutClockSkew(now time.Time) Record {
	written := r.Started
	if r.Attempted.After(written) {
		written = r.Attempted
	}
	if r.Finished() || !written.After(now) {
		return r
	}
	for _, t := range []*time.Time{&r.Started, &r.Attempted, &r.Delayed} {
		if !t.IsZero() {
			*t = now.Add(t.Sub(written)) // now.Sub(written) could overflow
		}
	}
	return r
}

// A wireRecord is the stored form of a [Record]. The fields are in kopf's order.
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

	// kopf doesn't know Attempted: it ignores the field, and drops it when it writes the record.
	Attempted *string `json:"attempted,omitempty"`
}

// MarshalJSON writes the record in kopf's format: compact, without empty fields, and with UTC times that have six fractional digits.
func (r Record) MarshalJSON() ([]byte, error) {
	out := wireRecord{
		Started: formatTime(r.Started),
		Stopped: formatTime(r.Stopped),
		Delayed: formatTime(r.Delayed),
		Purpose: optionalString(r.Purpose),
		Retries: r.Retries,
		Success: r.Success,
		Failure: r.Failure,
		Message: optionalString(r.Message),
		Subrefs: slices.Compact(slices.Sorted(slices.Values(r.Subrefs))),

		Attempted: formatTime(r.Attempted),
	}
	return EncodeJSON(out)
}

// UnmarshalJSON reads a record of any version of kopf. It ignores unknown keys and treats nulls as absent. Times can have any offset;
// without one, they are in UTC.
func (r *Record) UnmarshalJSON(text []byte) error {
	// Decoding into a struct would also accept keys in a different case.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	var out Record
	var retries float64
	err := errors.Join(
		decodeTime(fields["started"], &out.Started),
		decodeTime(fields["stopped"], &out.Stopped),
		decodeTime(fields["delayed"], &out.Delayed),
		decodeField(fields["purpose"], &out.Purpose),
		decodeField(fields["retries"], &retries),
		decodeField(fields["success"], &out.Success),
		decodeField(fields["failure"], &out.Failure),
		decodeField(fields["message"], &out.Message),
		decodeField(fields["subrefs"], &out.Subrefs),
	)
	if decodeTime(fields["attempted"], &out.Attempted) != nil || out.Delayed.IsZero() {
		out.Attempted = time.Time{} // ignore an invalid value, because kopf ignores the field, too
	}
	if err != nil {
		return err
	}
	if len(out.Purpose) > maxPurpose {
		return fmt.Errorf("purpose has %d bytes, want at most %d", len(out.Purpose), maxPurpose)
	}
	out.Message = truncate(out.Message, maxMessage)
	if retries < 0 || retries > maxCount || retries != math.Trunc(retries) {
		return fmt.Errorf("retries must be a non-negative integer, got %v", retries)
	}
	out.Retries = int(retries)
	*r = out
	return nil
}

// maxPurpose is the maximum length of a purpose in bytes, because purposes appear in logs and explanations.
const maxPurpose = 1024

// maxCount is the largest integer that every JSON decoder reads exactly.
const maxCount = 1 << 53

func decodeField[T any](text json.RawMessage, target *T) error {
	if text == nil {
		return nil
	}
	return json.Unmarshal(text, target)
}

func decodeTime(text json.RawMessage, target *time.Time) error {
	var value *string
	if err := decodeField(text, &value); err != nil || value == nil {
		return err
	}
	t, err := parseTime(*value)
	*target = t
	return err
}

// decodeRecord decodes a stored record. It returns nil for a stored null.
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

const timeFormat = "2006-01-02T15:04:05.000000-07:00"

func formatTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Format(timeFormat))
}

// timeLayouts are the forms of ISO 8601 that appear in records. Each layout with seconds also accepts a fraction of a second.
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
	return time.Time{}, fmt.Errorf("%.40q is not an ISO 8601 time", text)
}

func optionalString(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
