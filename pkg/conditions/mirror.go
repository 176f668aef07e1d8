package conditions

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MirrorFrom sets conditions of these types to what a child says: status, reason, message, and the time of the
// transition when the status changes. What the child does not say is Unknown, with [ReasonNotReported], and so is all
// that a child says that is nil. A child whose conditions are not where [For] looks goes through [Set.Mirror].
func (s *Set) MirrorFrom(child client.Object, conditionTypes ...string) {
	if isNil(child) {
		s.mirror(nil, conditionTypes)
		return
	}
	from, err := For(child)
	if err != nil {
		s.mistakef("nothing is mirrored: %w", err)
		return
	}
	s.mirror(from.List(), conditionTypes)
}

// Mirror is [Set.MirrorFrom] with the conditions of the child.
func (s *Set) Mirror(from *Set, conditionTypes ...string) { s.mirror(from.List(), conditionTypes) }

func (s *Set) mirror(list []metav1.Condition, conditionTypes []string) {
	if len(conditionTypes) == 0 {
		s.mistakef("nothing is mirrored: name the types")
	}
	for _, conditionType := range conditionTypes {
		c, exists := find(list, conditionType)
		switch {
		case !exists:
			c = metav1.Condition{Type: conditionType, Status: metav1.ConditionUnknown, Reason: ReasonNotReported}
		case c.Status != metav1.ConditionTrue && c.Status != metav1.ConditionFalse:
			c.Status = metav1.ConditionUnknown
		}
		c.ObservedGeneration = 0 // ours says what was observed of the parent
		s.Set(c)
	}
}
