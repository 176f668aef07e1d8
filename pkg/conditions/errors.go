package conditions

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An Error is a condition as an error value:
//
//	return conditions.Error{Type: "Connected", Reason: "Refused", Err: err}
//
// It can be wrapped and joined. The method Error returns the message of Err, or Message if Err is nil. [errors.Is] and [errors.As] inspect
// Err.
type Error struct {
	Type    string
	Status  metav1.ConditionStatus // default: False
	Reason  string                 // default: [ReasonUnspecified]
	Message string                 // default: the message of Err
	Err     error                  // the cause, or nil
}

func (e Error) Error() string {
	switch {
	case e.Err != nil:
		return e.Err.Error()
	case e.Message != "":
		return e.Message
	}
	c := e.Condition()
	return fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Reason)
}

// Unwrap returns Err.
func (e Error) Unwrap() error { return e.Err }

// Condition returns the condition, with defaults filled in.
func (e Error) Condition() metav1.Condition {
	c := metav1.Condition{Type: e.Type, Status: e.Status, Reason: validReason(e.Reason), Message: e.Message}
	if c.Status == "" {
		c.Status = metav1.ConditionFalse
	}
	if c.Message == "" && e.Err != nil {
		c.Message = e.Err.Error()
	}
	return c
}

// FindErrors returns all [Error] values in the tree of err, outermost first.
func FindErrors(err error) (errs []Error) {
	switch e := err.(type) { //nolint:errorlint // each error of the chain is inspected, not only the first match
	case nil:
		return nil
	case Error:
		errs = append(errs, e)
	case *Error:
		if e == nil {
			return nil
		}
		errs = append(errs, *e)
	}
	switch e := err.(type) { //nolint:errorlint // each error of the tree is inspected
	case interface{ Unwrap() error }:
		errs = append(errs, FindErrors(e.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			errs = append(errs, FindErrors(part)...)
		}
	}
	return errs
}

// SetFromError sets the conditions of all [Error] values in err and reports whether it found any. If several have the same type, the
// outermost one wins.
func (s *Set) SetFromError(err error) bool {
	errs := FindErrors(err)
	seen := map[string]bool{}
	for _, e := range errs {
		if !seen[e.Type] {
			seen[e.Type] = true
			s.Set(e.Condition())
		}
	}
	return len(errs) > 0
}
