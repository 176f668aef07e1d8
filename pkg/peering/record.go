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

// A Record is what an operator tells of itself in the status of the peering object, under its identity. Its JSON form
// is kopf's: {"priority": 0, "lifetime": 60, "lastseen": "2020-12-31T23:59:59.123456+00:00"}. [wire]
//
// Reading is generous: what is missing has kopf's default, unknown keys are ignored, numbers may be strings. What
// cannot be understood even so is an error.
type Record struct {
	// Priority of the operator: the highest one works, the others pause. Default: 0.
	Priority int
	// Lifetime is for how long the record counts after it was written, in whole seconds. Default: 60 seconds.
	Lifetime time.Duration
	// LastSeen is when the record was written, by the clock of its operator. Zero if it does not tell.
	LastSeen time.Time
	// Candidate is since when the operator has been ready to be elected among its equals, see [Elect]. Zero: it is
	// not, and the JSON form does not have the key, which kopf does not know and ignores.
	Candidate time.Time
	// Message is for people: why somebody has frozen the operators. It is not there if it is empty.
	Message string
}

// What a record is taken to say if it does not. [wire]
const (
	assumedPriority = 0
	assumedLifetime = 60 * time.Second
)

// MaxSkew is by how much the clocks of operators may differ without any effect.
const MaxSkew = 10 * time.Minute

// Expires is when the record is dead by the clock of its operator: kopf's rule. Zero: never.
func (r Record) Expires() time.Time {
	if r.LastSeen.IsZero() {
		return time.Time{}
	}
	return r.LastSeen.Add(r.Lifetime)
}

// Expired reports whether the record is dead by kopf's rule: it was written its lifetime ago, or longer. It is right
// only where clocks agree; operators here go by [Peer.Dead].
func (r Record) Expired(now time.Time) bool {
	return !r.LastSeen.IsZero() && !now.Before(r.Expires())
}

// MarshalJSON writes kopf's form, with its keys in kopf's order.
func (r Record) MarshalJSON() ([]byte, error) {
	form := struct {
		Priority  int    `json:"priority"`
		Lifetime  int64  `json:"lifetime"`
		LastSeen  string `json:"lastseen,omitempty"`
		Candidate string `json:"candidate,omitempty"`
		Message   string `json:"message,omitempty"`
	}{Priority: r.Priority, Lifetime: int64(r.Lifetime / time.Second), Message: r.Message}
	if !r.LastSeen.IsZero() {
		form.LastSeen = timestamp(r.LastSeen)
	}
	if !r.Candidate.IsZero() {
		form.Candidate = timestamp(r.Candidate)
	}
	return json.Marshal(form)
}

// UnmarshalJSON reads what kopf, in whatever version, may have written.
func (r *Record) UnmarshalJSON(raw []byte) error {
	var form map[string]json.RawMessage
	if err := json.Unmarshal(raw, &form); err != nil || form == nil {
		return fmt.Errorf("the record is no object with priority, lifetime and lastseen, but %.40s", raw)
	}
	var problems []error
	read := Record{Priority: assumedPriority, Lifetime: assumedLifetime}
	if raw, given := form["priority"]; given {
		n, err := integer(raw, math.Floor)
		problems, read.Priority = append(problems, about("priority", err)), int(n)
	}
	if raw, given := form["lifetime"]; given {
		n, err := integer(raw, math.Trunc)
		problems, read.Lifetime = append(problems, about("lifetime", err)), seconds(n)
	}
	var err error
	read.LastSeen, err = moment(form["lastseen"])
	problems = append(problems, about("lastseen", err))
	// What is ours, and broken, is only not there.
	read.Candidate, _ = moment(form["candidate"])
	_ = json.Unmarshal(form["message"], &read.Message)
	if err := errors.Join(problems...); err != nil {
		return err
	}
	*r = read
	return nil
}

func about(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

// integer reads a number, also from a string. One that is too large is the largest one. A priority between two
// integers is rounded down: whoever compares with it is never taken to be higher than he is.
func integer(raw []byte, round func(float64) float64) (int64, error) {
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
		return n, nil // of the two limits in the latter case
	}
	if quoted || text == "" || !strings.Contains("-0123456789", text[:1]) {
		return 0, fmt.Errorf("%.40s is no integer", raw)
	}
	float, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%.40s is no integer", raw)
	case float >= math.MaxInt64:
		return math.MaxInt64, nil
	case float <= math.MinInt64:
		return math.MinInt64, nil
	}
	return int64(round(float)), nil
}

// seconds are a duration, within what a duration can be.
func seconds(n int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Second)
	return time.Duration(min(max(n, -most), most)) * time.Second
}

func moment(raw []byte) (time.Time, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return time.Time{}, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return time.Time{}, fmt.Errorf("%.40s is no string", raw)
	}
	return parseTimestamp(text)
}
