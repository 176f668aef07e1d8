package conditionstest

import (
	"fmt"
	"strings"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// A Matcher matches values that have a condition. Its methods add requirements and return the same Matcher.
type Matcher struct {
	conditionType string
	status        metav1.ConditionStatus
	expectations  []expectation
}

// An expectation is the required value of a field.
type expectation struct {
	field   string
	value   func(metav1.Condition) any
	matcher types.GomegaMatcher
}

// HaveCondition matches values with a condition of the given type and status.
func HaveCondition(conditionType string, status metav1.ConditionStatus) *Matcher {
	return &Matcher{conditionType: conditionType, status: status}
}

// WithReason requires a reason: a string or a matcher.
func (m *Matcher) WithReason(reason any) *Matcher {
	return m.expect("reason", reason, func(c metav1.Condition) any { return c.Reason })
}

// WithMessage requires a message: a string or a matcher.
func (m *Matcher) WithMessage(message any) *Matcher {
	return m.expect("message", message, func(c metav1.Condition) any { return c.Message })
}

// OfGeneration requires an observedGeneration: an int, an int64 or a matcher.
func (m *Matcher) OfGeneration(generation any) *Matcher {
	if n, ok := generation.(int); ok {
		generation = int64(n)
	}
	return m.expect("observedGeneration", generation, func(c metav1.Condition) any { return c.ObservedGeneration })
}

func (m *Matcher) expect(field string, wanted any, of func(metav1.Condition) any) *Matcher {
	matcher, ok := wanted.(types.GomegaMatcher)
	if !ok {
		matcher = gomega.Equal(wanted)
	}
	m.expectations = append(m.expectations, expectation{field, of, matcher})
	return m
}

// Match implements the matcher interface of gomega.
func (m *Matcher) Match(actual any) (bool, error) {
	list, err := listOf(actual)
	if err != nil {
		return false, err
	}
	for _, c := range list {
		if c.Type == m.conditionType {
			return m.matches(c)
		}
	}
	return false, nil
}

func (m *Matcher) matches(c metav1.Condition) (bool, error) {
	if c.Status != m.status {
		return false, nil
	}
	for _, w := range m.expectations {
		if ok, err := w.matcher.Match(w.value(c)); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// FailureMessage implements the matcher interface of gomega.
func (m *Matcher) FailureMessage(actual any) string { return m.failureMessage(actual, "to have") }

// NegatedFailureMessage implements the matcher interface of gomega.
func (m *Matcher) NegatedFailureMessage(actual any) string {
	return m.failureMessage(actual, "not to have")
}

func (m *Matcher) failureMessage(actual any, what string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "Expected conditions\n")
	list, _ := listOf(actual) // Match has already returned the error
	for _, c := range list {
		fmt.Fprintf(&text, "    %s=%s reason=%s generation=%d %q\n", c.Type, c.Status, c.Reason, c.ObservedGeneration, c.Message)
	}
	if len(list) == 0 {
		fmt.Fprintf(&text, "    (none)\n")
	}
	fmt.Fprintf(&text, "%s %s=%s", what, m.conditionType, m.status)
	for _, c := range list {
		if c.Type != m.conditionType {
			continue
		}
		for _, w := range m.expectations {
			if ok, err := w.matcher.Match(w.value(c)); err == nil && !ok {
				fmt.Fprintf(&text, "\nand of its %s:\n%s", w.field, w.matcher.FailureMessage(w.value(c)))
			}
		}
	}
	return text.String()
}

func listOf(actual any) ([]metav1.Condition, error) {
	switch actual := actual.(type) {
	case []metav1.Condition:
		return actual, nil
	case *conditions.Set:
		return actual.List(), nil
	case client.Object:
		set, err := conditions.For(actual)
		if err != nil {
			return nil, err
		}
		return set.List(), nil
	}
	return nil, fmt.Errorf("HaveCondition expects an object, a *conditions.Set or a []metav1.Condition, got %T", actual)
}
