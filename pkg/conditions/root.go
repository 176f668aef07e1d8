package conditions

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Root is a condition that sums up others, its dependents.
type Root struct {
	Type string   // of the root; the default is Ready
	Of   []string // dependents of which True is good
	Not  []string // dependents of which False is good, such as Degraded
	// Fresh takes a dependent for Unknown that was observed of an older generation of the object. Leave it out if
	// some of them are set once and for all, as by what is done at the creation.
	Fresh bool
}

// Summarize sets the root. It is True, with [ReasonAsExpected], if all dependents are good. Otherwise it is False if
// any of them is bad, or else Unknown, with the reason of the first one (of Of, then of Not) and its message
// behind its name. A dependent that is not there is Unknown.
func (s *Set) Summarize(r Root) {
	if r.Type == "" {
		r.Type = "Ready"
	}
	dependents := slices.Concat(r.Of, r.Not)
	switch {
	case len(dependents) == 0:
		s.mistakef("the root %s has nothing to sum up: name its dependents in Of or Not", r.Type)
		return
	case slices.Contains(dependents, r.Type):
		s.mistakef("the root %s cannot depend on itself: leave it out of Of and Not", r.Type)
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
			s.False(r.Type, c.Reason, because(c))
			return
		default: // Unknown, or a word of another controller's
			if unknown == nil {
				unknown = &c
			}
		}
	}
	if unknown != nil {
		s.Unknown(r.Type, unknown.Reason, because(*unknown))
		return
	}
	s.True(r.Type, ReasonAsExpected, "")
}

func (s *Set) dependent(conditionType string, fresh bool) metav1.Condition {
	c, exists := s.Get(conditionType)
	switch {
	case !exists:
		return metav1.Condition{Type: conditionType, Reason: ReasonNotReported}
	case fresh && c.ObservedGeneration > 0 && c.ObservedGeneration < s.generation:
		return metav1.Condition{Type: conditionType, Reason: ReasonOutdated, Message: c.Message}
	}
	return c
}

func because(c metav1.Condition) string {
	if c.Message == "" {
		return c.Type
	}
	return c.Type + ": " + c.Message
}
