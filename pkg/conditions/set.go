package conditions

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Set is the conditions of one object, by their types. It works on the object itself: what is set is there at
// once, in memory; [Write] or a client of your own brings it to the server. It is for one goroutine. Make a new one
// after each read, and after each write, or see [Set.Rebase].
type Set struct {
	fields     Fields
	generation int64
	before     []metav1.Condition // when the set was made
	written    []metav1.Condition // on the server, as far as is known: there, a transition is one
	mistakes   []error
}

// For returns the conditions of an object. By default they are where GetConditions and SetConditions have them, if
// the type has both, otherwise in status.conditions; options name other places and shapes. The error tells why the
// object cannot have conditions there. Nothing is changed yet: null or no conditions, or no status, is an empty set.
func For(obj client.Object, opts ...Option) (*Set, error) {
	o := optionsOf(opts)
	fields, err := o.fields(obj)
	if err != nil {
		return nil, fmt.Errorf("conditions: %w", err)
	}
	s := &Set{fields: fields}
	s.Rebase()
	if o.since != nil {
		if fields, err := o.fields(o.since); err == nil {
			s.written = fields.List()
		}
	}
	if !o.whole && (o.path == nil || o.path[0] == "status") { // elsewhere each write raises it
		s.generation = obj.GetGeneration()
	}
	return s, nil
}

// Rebase takes note that the conditions were written as they are: what is set from now on is counted from there. It is for those who go on with a set
// after a write.
func (s *Set) Rebase() {
	s.before = s.fields.List()
	s.written = s.before
}

// List returns all conditions, those of others too, in the order in which they stand; in a map, sorted by type.
func (s *Set) List() []metav1.Condition { return s.fields.List() }

// Get returns the condition of a type, and whether there is one.
func (s *Set) Get(conditionType string) (metav1.Condition, bool) {
	return find(s.fields.List(), conditionType)
}

// Is reports whether the condition has the status. One that is not there is Unknown.
func (s *Set) Is(conditionType string, status metav1.ConditionStatus) bool {
	return statusOf(s.fields.List(), conditionType) == status
}

// True sets the condition to True. For the reason and the message see [Set.Set].
func (s *Set) True(conditionType, reason, message string) {
	s.Set(metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: reason, Message: message})
}

// False sets the condition to False. For the reason and the message see [Set.Set].
func (s *Set) False(conditionType, reason, message string) {
	s.Set(metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message})
}

// Unknown sets the condition to Unknown. For the reason and the message see [Set.Set].
func (s *Set) Unknown(conditionType, reason, message string) {
	s.Set(metav1.Condition{Type: conditionType, Status: metav1.ConditionUnknown, Reason: reason, Message: message})
}

// Set sets a condition, at its place if there is one of its type, otherwise behind the others.
//
// The reason is made one that the API accepts: "connection refused" becomes "ConnectionRefused", and none becomes
// [ReasonUnspecified]. A message of more than 32768 characters is cut. A type that is no name, and a status that is
// none of the three, are mistakes: nothing is set, and [Set.Err] tells.
//
// The time of the transition changes with the status only: to the given time, or else to now, in whole seconds.
// Back at the status that the object came with, it has its old time again. ObservedGeneration is the given one, or
// else the generation of the object, and never less than what was there; outside of the status, and without the
// subresource, it is the given one only. A condition that has none gets it with its
// next change, not before: where the schema of the kind drops the field, each pass would be a write otherwise.
func (s *Set) Set(c metav1.Condition) {
	if err := checkCondition(c); err != nil {
		s.mistakes = append(s.mistakes, err)
		return
	}
	c.Reason, c.Message = validReason(c.Reason), validMessage(c.Message)
	old, exists := s.Get(c.Type)
	if c.ObservedGeneration == 0 {
		c.ObservedGeneration = s.generation
	}
	c.ObservedGeneration = max(c.ObservedGeneration, old.ObservedGeneration)
	if exists && saysTheSame(old, c) {
		return
	}
	if first, existed := find(s.written, c.Type); existed && saysTheSame(first, c) {
		s.fields.Put(first) // there and back
		return
	}
	c.LastTransitionTime = s.transitionTime(c, old)
	s.fields.Put(c)
}

func saysTheSame(old, c metav1.Condition) bool {
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

// Declare makes sure that there are conditions of these types: those that are missing are set to Unknown, with
// [ReasonNotReported]. Users see from the first visit on what they can wait for.
func (s *Set) Declare(conditionTypes ...string) {
	for _, conditionType := range conditionTypes {
		if _, exists := s.Get(conditionType); !exists {
			s.Unknown(conditionType, ReasonNotReported, "")
		}
	}
}

// Remove removes the conditions of these types. The others keep their order.
func (s *Set) Remove(conditionTypes ...string) {
	for _, conditionType := range conditionTypes {
		s.fields.Remove(conditionType)
	}
}

// Changed reports whether the conditions are others than when the set was made: whether there is anything to write.
func (s *Set) Changed() bool { return !equality.Semantic.DeepEqual(s.before, s.fields.List()) }

// Err tells all mistakes that were made with the set, joined: conditions that were not set, and why.
func (s *Set) Err() error { return errors.Join(s.mistakes...) }

func (s *Set) mistakef(format string, args ...any) {
	s.mistakes = append(s.mistakes, fmt.Errorf("conditions: "+format, args...))
}

func find(list []metav1.Condition, conditionType string) (metav1.Condition, bool) {
	for _, c := range list {
		if c.Type == conditionType {
			return c, true
		}
	}
	return metav1.Condition{}, false
}

// statusOf takes what is not there for Unknown, as the conventions of the API do.
func statusOf(list []metav1.Condition, conditionType string) metav1.ConditionStatus {
	if c, exists := find(list, conditionType); exists && c.Status != "" {
		return c.Status
	}
	return metav1.ConditionUnknown
}
