package conditions_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

func TestSetFromError(t *testing.T) {
	inner := conditions.Error{Type: "Connected", Reason: "Cut", Err: io.ErrUnexpectedEOF}
	outer := &conditions.Error{Type: "Synced", Status: metav1.ConditionUnknown, Message: "no word", Err: fmt.Errorf("sync: %w", inner)}
	err := fmt.Errorf("handler: %w", errors.Join(io.EOF, outer, conditions.Error{Type: "Connected", Reason: "Later"}))

	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, io.EOF) {
		t.Error("errors.Is did not find the wrapped error")
	}
	var first conditions.Error
	if !errors.As(err, &first) || first.Type != "Connected" {
		t.Errorf("errors.As found %v, want the error with the type Connected", first)
	}
	equal(t, "error text", outer.Error(), "sync: unexpected EOF")

	s := setOf(t, &kind[standardList]{})
	if !s.SetFromError(err) {
		t.Error("SetFromError returned false, want true")
	}
	for i, want := range []metav1.Condition{
		{Type: "Synced", Status: metav1.ConditionUnknown, Reason: conditions.ReasonUnspecified, Message: "no word"},
		{Type: "Connected", Status: metav1.ConditionFalse, Reason: "Cut", Message: "unexpected EOF"},
	} {
		got := s.List()[i]
		got.LastTransitionTime = metav1.Time{}
		equal(t, want.Type, got, want)
	}
	equal(t, "number of conditions", len(s.List()), 2)
}

func TestSetFromError_OtherErrors(t *testing.T) {
	s := setOf(t, &kind[standardList]{})
	for _, err := range []error{nil, io.EOF, errors.Join(io.EOF, fmt.Errorf("x: %w", io.EOF)), (*conditions.Error)(nil)} {
		if s.SetFromError(err) || s.Changed() || s.Err() != nil {
			t.Errorf("SetFromError(%T) returned true, want false", err)
		}
	}
	if !s.SetFromError(conditions.Error{Type: "a b"}) || s.Err() == nil {
		t.Error("Err returned nil for an invalid type")
	}
}

func TestError_Message(t *testing.T) {
	equal(t, "text of an error with a message", conditions.Error{Type: "A", Message: "m"}.Error(), "m")
	equal(t, "text of an error with a reason", conditions.Error{Type: "A", Reason: "not yet"}.Error(), "A is False: NotYet")
}
