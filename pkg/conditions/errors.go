package conditions

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An Error carries a condition out of a function that fails:
//
//	return conditions.Error{Type: "Connected", Reason: "Refused", Err: err}
//
// It can be wrapped and joined. Its text is that of Err, and [errors.Is] and [errors.As] look into Err.
type Error struct {
	Type    string
	Status  metav1.ConditionStatus // the default is False
	Reason  string                 // the default is [ReasonUnspecified]
	Message string                 // the default is the text of Err
	Err     error                  // what has gone wrong; may be nil
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

// Condition is what the error carries, with its defaults.
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

// Carried returns all that an error carries, from the outside to the inside.
func Carried(err error) (carried []Error) {
	switch e := err.(type) { //nolint:errorlint // each error of the chain is looked at, not the first that fits
	case nil:
		return nil
	case Error:
		carried = append(carried, e)
	case *Error:
		if e == nil {
			return nil
		}
		carried = append(carried, *e)
	}
	switch e := err.(type) { //nolint:errorlint // the same
	case interface{ Unwrap() error }:
		carried = append(carried, Carried(e.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			carried = append(carried, Carried(part)...)
		}
	}
	return carried
}

// Carry sets the conditions that an error carries, and reports whether there were any. Of several of one type the
// outermost counts.
func (s *Set) Carry(err error) bool {
	carried := Carried(err)
	done := map[string]bool{}
	for _, e := range carried {
		if !done[e.Type] {
			done[e.Type] = true
			s.Set(e.Condition())
		}
	}
	return len(carried) > 0
}
