package webhooks

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Deny is the error of a handler that refuses a request: the client gets an API error with the HTTP code, the
// reason, and the message after the name of the webhook. Where others fail, too, and errors are joined, the first
// denial is told. A code that is none of an error (400 to 599), such as 0, is 403; an empty reason is
// Forbidden if the code is 403, too.
//
// kopf: AdmissionError, whose code is 500 unless given.
func Deny(code int, reason metav1.StatusReason, message string) error {
	if code < http.StatusBadRequest || code > 599 {
		code = http.StatusForbidden
	}
	if reason == "" && code == http.StatusForbidden {
		reason = metav1.StatusReasonForbidden
	}
	return &denial{metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message}}
}

type denial struct{ status metav1.Status }

func (d *denial) Error() string {
	if d.status.Message == "" {
		return "denied without explanation"
	}
	return d.status.Message
}

// Status makes a denial an API error, for apierrors.IsForbidden and the like in tests of handlers.
func (d *denial) Status() metav1.Status { return d.status }

// statusOf is what the client is told of an error; false if it is not told what it was. Of several errors
// joined, a denial goes before what was found invalid, and that before faults.
func statusOf(err error, gk schema.GroupKind, name string) (metav1.Status, bool) {
	found := findings{kind: gk, name: name}
	found.collect(err)
	switch {
	case found.denial != nil:
		return found.denial.status, true
	case found.invalid != nil:
		return *found.invalid, true
	case len(found.fields) > 0:
		return apierrors.NewInvalid(gk, name, found.fields).ErrStatus, true
	default:
		return metav1.Status{}, false
	}
}

// findings are the errors within an error that are meant for the client.
type findings struct {
	kind schema.GroupKind // of the review's object
	name string

	denial  *denial
	invalid *metav1.Status
	fields  field.ErrorList
}

func (f *findings) collect(err error) {
	switch e := err.(type) { //nolint:errorlint // it walks through all that is wrapped by itself
	case nil:
	case *denial:
		if f.denial == nil {
			f.denial = e
		}
	case *field.Error:
		f.fields = append(f.fields, e)
	case *apierrors.StatusError:
		// Errors of a client are of this type as well, and say what the operator may or may not do, and what it has written
		// elsewhere: only what finds the object of the review invalid is meant for the user.
		if f.invalid == nil && apierrors.IsInvalid(e) && f.concerns(e.ErrStatus.Details) {
			f.invalid = &e.ErrStatus
		}
	case utilerrors.Aggregate:
		for _, inner := range e.Errors() {
			f.collect(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			f.collect(inner)
		}
	default:
		f.collect(errors.Unwrap(err))
	}
}

func (f *findings) concerns(d *metav1.StatusDetails) bool {
	return d != nil && d.Group == f.kind.Group && d.Kind == f.kind.Kind && d.Name == f.name
}
