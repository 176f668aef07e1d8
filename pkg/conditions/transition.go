package conditions

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Step describes how a condition changed between two versions of an object.
type Step struct {
	Type     string
	From, To metav1.ConditionStatus // statuses; Unknown for a missing condition
	Old, New *metav1.Condition      // conditions; nil for a missing condition
}

// Transition compares a condition in two versions of an object and reports whether its status has changed. A missing condition is Unknown,
// so adding or removing an Unknown condition isn't a change. Either object can be nil or have no place for conditions.
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

// Is reports whether a condition of the object has the status. A missing condition is Unknown. If the object has no place for conditions,
// Is returns false.
func Is(obj client.Object, conditionType string, status metav1.ConditionStatus, opts ...Option) bool {
	s, err := For(obj, opts...)
	return err == nil && s.Is(conditionType, status)
}

func listOf(obj client.Object, opts []Option) []metav1.Condition {
	s, err := For(obj, opts...)
	if err != nil {
		return nil
	}
	return s.initial
}
