package match

import (
	"encoding/json"
	"fmt"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// Side selects the value that a matcher tests.
type Side int

// The sides of a change. Most matchers test the current value.
const (
	Current Side = iota
	Before
	After
)

// Matcher is a matcher of package filter in a form that can be inspected.
type Matcher struct {
	// Description is how errors describe the matcher.
	Description string
	Test        Test
	Side        Side
	// Presence is set if the matcher only tests whether a value exists: true if it must, false if it must not.
	Presence *bool
	// HasEqual is true if the matcher does nothing but compare with Equal.
	HasEqual bool
	Equal    any
	// All lists the inner matchers of a conjunction, one for each argument.
	All []Matcher
	// Opaque is true if the result depends on more than the operands and the value's presence, for example on a user's function.
	Opaque bool
	// Operands lists all values that the matcher compares with, including those of inner matchers.
	Operands []Operand
	// Err says why a matcher is invalid.
	Err error
}

// Conjuncts returns the inner matchers of a conjunction, recursively, or otherwise the matcher itself.
func (m Matcher) Conjuncts() (parts []Matcher) {
	if len(m.All) == 0 {
		return []Matcher{m}
	}
	for _, inner := range m.All {
		inner.Side = m.Side
		parts = append(parts, inner.Conjuncts()...)
	}
	return parts
}

// IsPresent reports whether the matcher only tests that a value exists.
func (m Matcher) IsPresent() bool { return m.Presence != nil && *m.Presence }

// IsAbsent reports whether the matcher only tests that no value exists.
func (m Matcher) IsAbsent() bool { return m.Presence != nil && !*m.Presence }

// Contradict reports whether no value can pass all matchers, or no change if some of them test the sides of a change. It ignores opaque
// matchers and doesn't know the value's type, so matchers may contradict each other even if it returns false.
func Contradict(matchers ...Matcher) bool {
	var current, before, after []Test
	values := []any{nil, "\x00one", "\x00other"} // no value, and two that no matcher compares with
	for _, m := range matchers {
		if m.Opaque {
			continue
		}
		for _, operand := range m.Operands {
			values = append(values, operand.Value)
		}
		switch m.Side {
		case Current:
			current = append(current, m.Test)
		case Before:
			before = append(before, m.Test)
		case After:
			after = append(after, m.Test)
		}
	}
	passCurrent := func(value any) bool { return passesAll(current, value) }
	if len(before)+len(after) == 0 {
		return !slices.ContainsFunc(values, passCurrent)
	}
	for _, old := range values {
		for _, new := range values {
			if passesAll(before, old) && passesAll(after, new) && (passCurrent(old) || passCurrent(new)) && !diff.Equal(old, new) {
				return false
			}
		}
	}
	return true
}

// Operand is a value that a matcher compares with.
type Operand struct {
	// Value is in its JSON form.
	Value any
	Side  Side
	// OrAbsent is true if an absent value passes too.
	OrAbsent bool
	// Negated is true if the matcher passes for every value except this one.
	Negated bool
}

// String returns the value as JSON.
func (l Operand) String() string {
	out, err := json.Marshal(l.Value)
	if err != nil {
		return fmt.Sprint(l.Value)
	}
	return string(out)
}

// ToJSONValue converts a value to the types that decoded JSON has.
func ToJSONValue(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out any
	if err := utiljson.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	return out, nil
}
