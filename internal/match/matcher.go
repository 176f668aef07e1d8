package match

import (
	"encoding/json"
	"fmt"

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

// Matcher is the inspectable form of a matcher of package filter.
type Matcher struct {
	// Description describes the matcher in errors.
	Description string
	Test        Test
	Side        Side
	// Presence is set if the matcher only tests whether there is a value.
	Presence *bool
	// HasEqual is true if the matcher only compares with Equal.
	HasEqual bool
	Equal    any
	// All contains the inner matchers of a conjunction, one for each argument.
	All []Matcher
	// Operands contains all values that the matcher compares with, including those of inner matchers.
	Operands []Operand
	// Err describes an invalid matcher.
	Err error
}

// Conjuncts returns the inner matchers of a conjunction, recursively. For any other matcher, it returns the matcher itself.
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

// IsPresent reports whether the matcher only tests that there is a value.
func (m Matcher) IsPresent() bool { return m.Presence != nil && *m.Presence }

// IsAbsent reports whether the matcher only tests that there is no value.
func (m Matcher) IsAbsent() bool { return m.Presence != nil && !*m.Presence }

// Contradict reports whether it is certain that no value can pass both matchers. If the matchers test different sides of a change, it reports whether no
// change can pass both. It does not find all contradictions.
func Contradict(a, b Matcher) bool {
	switch {
	case a.Side == b.Side:
		return a.IsAbsent() && (b.HasEqual || b.IsPresent()) || (a.HasEqual || a.IsPresent()) && b.IsAbsent() ||
			a.HasEqual && b.HasEqual && !diff.Equal(a.Equal, b.Equal)
	case a.Side != Current && b.Side != Current:
		return a.IsAbsent() && b.IsAbsent() || a.HasEqual && b.HasEqual && diff.Equal(a.Equal, b.Equal)
	default:
		return false
	}
}

// Operand is a value that a matcher compares with.
type Operand struct {
	// Value is the value in its JSON form.
	Value any
	Side  Side
	// OrAbsent is true if an absent value also passes.
	OrAbsent bool
	// Negated is true if the matcher passes for all values except Value.
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

// ToJSONValue converts a value to the types of decoded JSON objects.
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
