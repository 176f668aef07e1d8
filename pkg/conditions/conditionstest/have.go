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

// A Matcher is met by what has a condition; its methods narrow it, and return it.
type Matcher struct {
	conditionType string
	status        metav1.ConditionStatus
	wants         []want
}

// A want is what a field of the condition is to match.
type want struct {
	field   string
	of      func(metav1.Condition) any
	matcher types.GomegaMatcher
}

// HaveCondition matches what has a condition of the type with the status.
func HaveCondition(conditionType string, status metav1.ConditionStatus) *Matcher {
	return &Matcher{conditionType: conditionType, status: status}
}

// WithReason also wants the reason, a string or a matcher.
func (m *Matcher) WithReason(reason any) *Matcher {
	return m.with("reason", reason, func(c metav1.Condition) any { return c.Reason })
}

// WithMessage also wants the message, a string or a matcher.
func (m *Matcher) WithMessage(message any) *Matcher {
	return m.with("message", message, func(c metav1.Condition) any { return c.Message })
}

// OfGeneration also wants the condition to have been observed of that generation of the object, an int64 or a matcher.
func (m *Matcher) OfGeneration(generation any) *Matcher {
	if n, ok := generation.(int); ok {
		generation = int64(n)
	}
	return m.with("observedGeneration", generation, func(c metav1.Condition) any { return c.ObservedGeneration })
}

func (m *Matcher) with(field string, wanted any, of func(metav1.Condition) any) *Matcher {
	matcher, ok := wanted.(types.GomegaMatcher)
	if !ok {
		matcher = gomega.Equal(wanted)
	}
	m.wants = append(m.wants, want{field, of, matcher})
	return m
}

// Match makes it a matcher of gomega.
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
	for _, w := range m.wants {
		if ok, err := w.matcher.Match(w.of(c)); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// FailureMessage makes it a matcher of gomega.
func (m *Matcher) FailureMessage(actual any) string { return m.explain(actual, "to have") }

// NegatedFailureMessage makes it a matcher of gomega.
func (m *Matcher) NegatedFailureMessage(actual any) string { return m.explain(actual, "not to have") }

func (m *Matcher) explain(actual any, what string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "Expected conditions\n")
	list, _ := listOf(actual) // an error has been told by Match
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
		for _, w := range m.wants {
			if ok, err := w.matcher.Match(w.of(c)); err == nil && !ok {
				fmt.Fprintf(&text, "\nand of its %s:\n%s", w.field, w.matcher.FailureMessage(w.of(c)))
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
	return nil, fmt.Errorf("HaveCondition wants an object, a *conditions.Set or a []metav1.Condition, not a %T", actual)
}
