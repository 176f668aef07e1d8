package conditions

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MirrorFrom copies conditions of the given types from a child object: status, reason, message, and, if the status changes, the transition
// time. If the child is nil or lacks a condition, the condition becomes Unknown with [ReasonNotReported]. If [For] doesn't find the child's
// conditions, use [Set.Mirror].
func (s *Set) MirrorFrom(child client.Object, conditionTypes ...string) {
	if isNil(child) {
		s.mirror(nil, conditionTypes)
		return
	}
	from, err := For(child)
	if err != nil {
		s.addErrorf("cannot mirror conditions: %w", err)
		return
	}
	s.mirror(from.List(), conditionTypes)
}

// Mirror is like [Set.MirrorFrom], but copies from a Set.
func (s *Set) Mirror(from *Set, conditionTypes ...string) { s.mirror(from.List(), conditionTypes) }

func (s *Set) mirror(list []metav1.Condition, conditionTypes []string) {
	if len(conditionTypes) == 0 {
		s.addErrorf("cannot mirror conditions: no condition types given")
	}
	for _, conditionType := range conditionTypes {
		c, exists := find(list, conditionType)
		switch {
		case !exists:
			c = metav1.Condition{Type: conditionType, Status: metav1.ConditionUnknown, Reason: ReasonNotReported}
		case c.Status != metav1.ConditionTrue && c.Status != metav1.ConditionFalse:
			c.Status = metav1.ConditionUnknown
		}
		c.ObservedGeneration = 0 // Set replaces it with the parent's generation
		s.Set(c)
	}
}
