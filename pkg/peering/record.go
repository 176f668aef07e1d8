package peering

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Record is an operator's entry in the status of the peering object. Its key is the operator's identity. The JSON form is kopf's:
// {"priority": 0, "lifetime": 60, "lastseen": "2020-12-31T23:59:59.123456+00:00"}.
//
// Decoding is tolerant: missing fields get kopf's defaults, unknown fields are ignored, and numbers can be strings. Other invalid values of
// priority, lifetime and lastseen are errors.
type Record struct {
	// Priority is compared with the priorities of the peers. The operator with the highest priority works. Default: 0.
	Priority int
	// Lifetime is how long the record is valid after it was written, in whole seconds, at most [MaxLifetime]. Default: 60 seconds.
	Lifetime time.Duration
	// LastSeen is when the record was written, by the writer's clock; zero if unknown.
	LastSeen time.Time
	// Candidate is when the operator became a candidate for the election among equal priorities (see [Elect]). If it is zero, the operator
	// isn't a candidate, and the JSON form omits the field. kopf ignores it.
	Candidate time.Time
	// Message explains a freeze to users. The JSON form omits it if it is empty.
	Message string
}

// Defaults of missing fields of a record.
const (
	defaultPriority = 0
	defaultLifetime = 60 * time.Second
)

// MaxLifetime is the longest time for which an unchanged record pauses other operators. A longer lifetime counts as this one, because
// otherwise a faulty or forged record could pause them for years.
const MaxLifetime = 7 * 24 * time.Hour

// MaxSkew is the maximum tolerated difference between the clocks of operators.
const MaxSkew = 10 * time.Minute

// Expires returns when the record expires by the clock of its operator, as in kopf. If LastSeen is zero, the record never expires, and
// Expires returns zero.
func (r Record) Expires() time.Time {
	if r.LastSeen.IsZero() {
		return time.Time{}
	}
	return r.LastSeen.Add(r.Lifetime)
}

// Expired reports whether the record has expired at the time now, as in kopf. This is only correct if clocks are synchronized, so operators
// of this package use [Peer.Dead] instead.
func (r Record) Expired(now time.Time) bool {
	return !r.LastSeen.IsZero() && !now.Before(r.Expires())
}

// MarshalJSON returns kopf's form, with the fields in kopf's order.
func (r Record) MarshalJSON() ([]byte, error) {
	form := struct {
		Priority  int    `json:"priority"`
		Lifetime  int64  `json:"lifetime"`
		LastSeen  string `json:"lastseen,omitempty"`
		Candidate string `json:"candidate,omitempty"`
		Message   string `json:"message,omitempty"`
	}{Priority: r.Priority, Lifetime: int64(r.Lifetime / time.Second), Message: r.Message}
	if !r.LastSeen.IsZero() {
		form.LastSeen = formatTimestamp(r.LastSeen)
	}
	if !r.Candidate.IsZero() {
		form.Candidate = formatTimestamp(r.Candidate)
	}
	return json.Marshal(form)
}

// UnmarshalJSON decodes records of all versions of kopf.
func (r *Record) UnmarshalJSON(raw []byte) error {
	var form map[string]json.RawMessage
	if err := json.Unmarshal(raw, &form); err != nil || form == nil {
		return fmt.Errorf("the record must be an object with priority, lifetime and lastseen, got %.40s", raw)
	}
	var problems []error
	read := Record{Priority: defaultPriority, Lifetime: defaultLifetime}
	if raw, given := form["priority"]; given {
		n, err := parseInteger(raw, math.Floor)
		problems, read.Priority = append(problems, fieldError("priority", err)), int(n)
	}
	if raw, given := form["lifetime"]; given {
		n, err := parseInteger(raw, math.Trunc)
		problems, read.Lifetime = append(problems, fieldError("lifetime", err)), toDuration(n)
	}
	var err error
	read.LastSeen, err = parseTime(form["lastseen"])
	problems = append(problems, fieldError("lastseen", err))
	// Ignore invalid values of the fields that kopf doesn't have.
	read.Candidate, _ = parseTime(form["candidate"])
	_ = json.Unmarshal(form["message"], &read.Message)
	if err := errors.Join(problems...); err != nil {
		return err
	}
	*r = read
	return nil
}

func fieldError(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

// parseInteger decodes a number, or a string with an integer. A value out of range becomes the nearest limit. The function round converts
// fractions.
func parseInteger(raw []byte, round func(float64) float64) (int64, error) {
	text := string(bytes.TrimSpace(raw))
	quoted := strings.HasPrefix(text, `"`)
	if quoted {
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, err
		}
		text = strings.TrimSpace(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return n, nil // ParseInt returns the nearest limit
	}
	if quoted || text == "" || !strings.Contains("-0123456789", text[:1]) {
		return 0, fmt.Errorf("%.40s is not an integer", raw)
	}
	float, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%.40s is not an integer", raw)
	case float >= math.MaxInt64:
		return math.MaxInt64, nil
	case float <= math.MinInt64:
		return math.MinInt64, nil
	}
	return int64(round(float)), nil
}

// toDuration converts seconds, limited to the range of a duration.
func toDuration(n int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Second)
	return time.Duration(min(max(n, -most), most)) * time.Second
}

func parseTime(raw []byte) (time.Time, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return time.Time{}, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return time.Time{}, fmt.Errorf("%.40s is not a string", raw)
	}
	return parseTimestamp(text)
}
