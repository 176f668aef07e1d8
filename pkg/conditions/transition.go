package conditions

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Step is the way of a condition from one state of an object to another one.
type Step struct {
	Type     string
	From, To metav1.ConditionStatus // Unknown if there is none
	Old, New *metav1.Condition      // nil if there is none
}

// Transition returns the step of a condition between two states of an object, and whether its status has changed.
// A condition that is not there is Unknown, as the conventions of the API have it: that one is declared, or
// removed while it is Unknown, is no transition. Either object may be nil, when it is created or gone; an object
// without conditions of a known shape counts as one that has none.
func Transition(old, new client.Object, conditionType string, opts ...Option) (Step, bool) {
	before, after := listOf(old, opts), listOf(new, opts)
	step := Step{
		Type: conditionType,
		From: statusOf(before, conditionType),
		To:   statusOf(after, conditionType),
	}
	if c, exists := find(before, conditionType); exists {
		step.Old = &c
	}
	if c, exists := find(after, conditionType); exists {
		step.New = &c
	}
	return step, step.From != step.To
}

// Is reports whether a condition of the object has the status. One that is not there is Unknown, and nothing
// can be said of an object whose conditions have no known shape.
func Is(obj client.Object, conditionType string, status metav1.ConditionStatus, opts ...Option) bool {
	s, err := For(obj, opts...)
	return err == nil && s.Is(conditionType, status)
}

func listOf(obj client.Object, opts []Option) []metav1.Condition {
	s, err := For(obj, opts...)
	if err != nil {
		return nil
	}
	return s.before
}
