package conditions

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Root defines a condition that summarizes other conditions.
type Root struct {
	Type string   // type of the summary; the default is Ready
	Of   []string // types that must be True
	Not  []string // types that must be False, such as Degraded
	// Fresh treats conditions that were observed at an older generation of the object as Unknown. Leave it false if some of them are set
	// only once, for example at creation.
	Fresh bool
}

// Summarize sets the condition of type r.Type. It is True with [ReasonAsExpected] if all conditions have the expected status, False if any
// has the opposite status, and otherwise Unknown. The reason comes from the first condition that causes this status, in the order of Of and
// Not. The message contains that condition's type and message. A missing condition is Unknown.
func (s *Set) Summarize(r Root) {
	if r.Type == "" {
		r.Type = "Ready"
	}
	dependents := slices.Concat(r.Of, r.Not)
	switch {
	case len(dependents) == 0:
		s.addErrorf("root condition %s summarizes no conditions: set Of or Not", r.Type)
		return
	case slices.Contains(dependents, r.Type):
		s.addErrorf("root condition %s cannot depend on itself: remove it from Of and Not", r.Type)
		return
	}
	var unknown *metav1.Condition
	for i, conditionType := range dependents {
		c := s.dependent(conditionType, r.Fresh)
		good := metav1.ConditionTrue
		if i >= len(r.Of) {
			good = metav1.ConditionFalse
		}
		switch c.Status {
		case good:
		case metav1.ConditionTrue, metav1.ConditionFalse:
			s.False(r.Type, c.Reason, explainDependent(c))
			return
		default: // Unknown, or a non-standard status set by another controller
			if unknown == nil {
				unknown = &c
			}
		}
	}
	if unknown != nil {
		s.Unknown(r.Type, unknown.Reason, explainDependent(*unknown))
		return
	}
	s.True(r.Type, ReasonAsExpected, "")
}

func (s *Set) dependent(conditionType string, fresh bool) metav1.Condition {
	c, exists := s.Get(conditionType)
	switch {
	case !exists:
		return metav1.Condition{Type: conditionType, Reason: ReasonNotReported}
	case fresh && c.ObservedGeneration > 0 && c.ObservedGeneration < s.generation():
		return metav1.Condition{Type: conditionType, Reason: ReasonOutdated, Message: c.Message}
	}
	return c
}

func explainDependent(c metav1.Condition) string {
	if c.Message == "" {
		return c.Type
	}
	return c.Type + ": " + c.Message
}
