package conditions_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// The test covers the truth table of the positive conditions A and B and the negative condition N.
func TestSummarize(t *testing.T) {
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	for _, c := range []struct {
		a, b, n         metav1.ConditionStatus
		want            metav1.ConditionStatus
		reason, message string
	}{
		{yes, yes, no, yes, "AsExpected", ""},
		{yes, yes, yes, no, "OfN", "N: it is True"},
		{yes, yes, unknown, unknown, "OfN", "N: it is Unknown"},
		{yes, no, no, no, "OfB", "B: it is False"},
		{no, no, yes, no, "OfA", "A: it is False"},
		{unknown, no, no, no, "OfB", "B: it is False"},
		{unknown, yes, yes, no, "OfN", "N: it is True"},
		{unknown, unknown, no, unknown, "OfA", "A: it is Unknown"},
		{yes, unknown, no, unknown, "OfB", "B: it is Unknown"},
		{yes, "", no, unknown, "NotReported", "B"},
		{"", "", "", unknown, "NotReported", "A"},
		{"", no, "", no, "OfB", "B: it is False"},
	} {
		obj := &kind[standardList]{}
		obj.SetGeneration(7)
		s := setOf(t, obj)
		for name, status := range map[string]metav1.ConditionStatus{"A": c.a, "B": c.b, "N": c.n} {
			if status != "" {
				s.Set(metav1.Condition{Type: name, Status: status, Reason: "Of" + name, Message: "it is " + string(status)})
			}
		}
		s.Summarize(conditions.Root{Of: []string{"A", "B"}, Not: []string{"N"}})
		got, _ := s.Get("Ready")
		got.LastTransitionTime = metav1.Time{}
		equal(t, string("A "+c.a+" B "+c.b+" N "+c.n), got, metav1.Condition{
			Type: "Ready", Status: c.want, Reason: c.reason, Message: c.message, ObservedGeneration: 7,
		})
	}
}

func TestSummarize_NonStandardStatus(t *testing.T) {
	s := setOf(t, parse(`{"status": {"conditions": [{"type": "A", "status": "Perhaps"}]}}`))
	s.Summarize(conditions.Root{Type: "Fine", Of: []string{"A"}})
	if c, _ := s.Get("Fine"); c.Status != metav1.ConditionUnknown || c.Reason != conditions.ReasonUnspecified {
		t.Errorf("got %v, want Unknown with the reason Unspecified", c)
	}
}

func TestSummarize_Fresh(t *testing.T) {
	obj := &kind[standardList]{}
	obj.SetGeneration(2)
	s := setOf(t, obj)
	s.Set(metav1.Condition{Type: "Created", Status: metav1.ConditionTrue, ObservedGeneration: 1})
	s.Summarize(conditions.Root{Of: []string{"Created"}})
	equal(t, "Ready is True", s.Is("Ready", metav1.ConditionTrue), true)
	s.Summarize(conditions.Root{Of: []string{"Created"}, Fresh: true})
	c, _ := s.Get("Ready")
	equal(t, "status before the new generation is observed", c.Status, metav1.ConditionUnknown)
	equal(t, "the reason", c.Reason, conditions.ReasonOutdated)
	s.True("Created", "Again", "")
	s.Summarize(conditions.Root{Of: []string{"Created"}, Fresh: true})
	equal(t, "Ready is True after the new generation is observed", s.Is("Ready", metav1.ConditionTrue), true)
}
