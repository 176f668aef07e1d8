package conditions

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Set holds the conditions of one object by type. Its methods change the object in memory; use [Write] or a client to write it. A Set is
// not safe for concurrent use. Create a new one after each read or write, or call [Set.Rebase].
type Set struct {
	fields   Fields
	observes client.Object // the object whose generation the conditions observe; nil if they observe none
	onSet    func(conditionType string)
	initial  []metav1.Condition // the conditions at the creation of the set
	written  []metav1.Condition // the last known conditions on the server; transition times depend on them
	errs     []error
}

// For returns the conditions of an object. By default, it uses GetConditions and SetConditions if the Go type has both, and
// status.conditions otherwise. Options select other places and shapes. For returns an error if the object has no place for conditions. It
// doesn't change the object.
func For(obj client.Object, opts ...Option) (*Set, error) {
	o := optionsOf(opts)
	fields, err := o.fields(obj)
	if err != nil {
		return nil, fmt.Errorf("conditions: %w", err)
	}
	s := &Set{fields: fields, onSet: o.onSet}
	s.Rebase()
	if o.since != nil {
		if fields, err := o.fields(o.since); err == nil {
			s.written = fields.List()
		}
	}
	if !o.withoutSubresource && (o.path == nil || o.path[0] == "status") { // outside of the status, each write would increase the generation
		s.observes = obj
	}
	return s, nil
}

// generation returns the object's current generation; 0 if conditions don't observe it. The caller may have updated the object with a
// client, so don't cache the value.
func (s *Set) generation() int64 {
	if s.observes == nil {
		return 0
	}
	return s.observes.GetGeneration()
}

// Rebase marks the current conditions as written. Call it to continue with the set after a write.
func (s *Set) Rebase() {
	s.initial = s.fields.List()
	s.written = s.initial
}

// List returns all conditions in their stored order. Conditions in a map are sorted by type.
func (s *Set) List() []metav1.Condition { return s.fields.List() }

// Get returns the condition of a type, and whether it exists.
func (s *Set) Get(conditionType string) (metav1.Condition, bool) {
	return find(s.fields.List(), conditionType)
}

// Is reports whether the condition has the status. A missing condition is Unknown.
func (s *Set) Is(conditionType string, status metav1.ConditionStatus) bool {
	return statusOf(s.fields.List(), conditionType) == status
}

// True sets the condition to True, see [Set.Set].
func (s *Set) True(conditionType, reason, message string) {
	s.Set(metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: reason, Message: message})
}

// False sets the condition to False, see [Set.Set].
func (s *Set) False(conditionType, reason, message string) {
	s.Set(metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message})
}

// Unknown sets the condition to Unknown, see [Set.Set].
func (s *Set) Unknown(conditionType, reason, message string) {
	s.Set(metav1.Condition{Type: conditionType, Status: metav1.ConditionUnknown, Reason: reason, Message: message})
}

// Set adds a condition or replaces the condition of its type. New conditions are added at the end.
//
// The reason is converted to a valid form: "connection refused" becomes "ConnectionRefused", and an empty reason becomes
// [ReasonUnspecified]. Messages are cut at 32768 characters. If the type or the status is invalid, the condition isn't set and [Set.Err]
// returns an error.
//
// The transition time changes only with the status, to the given or the current time. If the status returns to its value on the server, the
// old time is restored.
//
// ObservedGeneration is the given value, or else the object's generation, and never decreases. If each write increases the generation, only
// the given value is used. Set doesn't add the field to an existing condition unless something else changes, because a schema that drops it
// would otherwise cause a write in every reconcile.
func (s *Set) Set(c metav1.Condition) {
	if err := checkCondition(c); err != nil {
		s.errs = append(s.errs, err)
		return
	}
	if s.onSet != nil {
		s.onSet(c.Type)
	}
	c.Reason, c.Message = validReason(c.Reason), validMessage(c.Message)
	old, exists := s.Get(c.Type)
	if c.ObservedGeneration == 0 {
		c.ObservedGeneration = s.generation()
	}
	c.ObservedGeneration = max(c.ObservedGeneration, old.ObservedGeneration)
	if exists && equal(old, c) {
		return
	}
	if first, existed := find(s.written, c.Type); existed && equal(first, c) {
		s.fields.Put(first) // restore the unchanged condition
		return
	}
	c.LastTransitionTime = s.transitionTime(c, old)
	s.fields.Put(c)
}

func equal(old, c metav1.Condition) bool {
	return old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message &&
		(old.ObservedGeneration == c.ObservedGeneration || old.ObservedGeneration == 0)
}

func (s *Set) transitionTime(c, old metav1.Condition) metav1.Time {
	first, _ := find(s.written, c.Type)
	switch {
	case first.Status == c.Status && !first.LastTransitionTime.IsZero():
		return first.LastTransitionTime
	case old.Status == c.Status && !old.LastTransitionTime.IsZero():
		return old.LastTransitionTime
	case c.LastTransitionTime.IsZero():
		c.LastTransitionTime = metav1.Now()
	}
	return metav1.NewTime(c.LastTransitionTime.UTC().Truncate(time.Second))
}

// Declare adds missing conditions as Unknown with [ReasonNotReported], so that users see all condition types early.
func (s *Set) Declare(conditionTypes ...string) {
	for _, conditionType := range conditionTypes {
		if _, exists := s.Get(conditionType); !exists {
			s.Unknown(conditionType, ReasonNotReported, "")
		}
	}
}

// Remove removes the conditions of the given types. The others keep their order.
func (s *Set) Remove(conditionTypes ...string) {
	for _, conditionType := range conditionTypes {
		s.fields.Remove(conditionType)
	}
}

// Changed reports whether the conditions have changed since the set was created or last rebased.
func (s *Set) Changed() bool { return !equality.Semantic.DeepEqual(s.initial, s.fields.List()) }

// Err returns the joined errors of all conditions that couldn't be set.
func (s *Set) Err() error { return errors.Join(s.errs...) }

func (s *Set) addErrorf(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf("conditions: "+format, args...))
}

func find(list []metav1.Condition, conditionType string) (metav1.Condition, bool) {
	for _, c := range list {
		if c.Type == conditionType {
			return c, true
		}
	}
	return metav1.Condition{}, false
}

// statusOf returns Unknown for a missing condition, following the Kubernetes API conventions.
func statusOf(list []metav1.Condition, conditionType string) metav1.ConditionStatus {
	if c, exists := find(list, conditionType); exists && c.Status != "" {
		return c.Status
	}
	return metav1.ConditionUnknown
}
