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

// Deny returns an error that denies a request. The client receives an API error with the HTTP code and the reason. The API server puts the
// name of the webhook before the message. If a handler joins several errors, the client receives only the first denial. A code outside of
// 400 to 599, such as 0, becomes 403. An empty reason becomes Forbidden if the code is 403.
//
// Equivalent in kopf: AdmissionError, whose default code is 500.
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
		return "denied without a message"
	}
	return d.status.Message
}

// Status returns the status of the denial, so that tests of handlers can use apierrors.IsForbidden and the like.
func (d *denial) Status() metav1.Status { return d.status }

// clientStatus returns the status for the client. It returns false if the handler has failed, because clients must not see the details.
// Among joined errors, a denial has precedence over Invalid errors, which have precedence over handler failures.
func clientStatus(err error, gk schema.GroupKind, name string) (metav1.Status, bool) {
	found := clientErrors{kind: gk, name: name}
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

// clientErrors collects the parts of an error that the client may see.
type clientErrors struct {
	kind schema.GroupKind // kind of the reviewed object
	name string

	denial  *denial
	invalid *metav1.Status
	fields  field.ErrorList
}

func (f *clientErrors) collect(err error) {
	switch e := err.(type) { //nolint:errorlint // collect unwraps all levels
	case nil:
	case *denial:
		if f.denial == nil {
			f.denial = e
		}
	case *field.Error:
		f.fields = append(f.fields, e)
	case *apierrors.StatusError:
		// Errors of an API client have the same type and can reveal the permissions and writes of the operator. So the user receives only
		// an Invalid error for the reviewed object.
		if f.invalid == nil && apierrors.IsInvalid(e) && f.describesObject(e.ErrStatus.Details) {
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

func (f *clientErrors) describesObject(d *metav1.StatusDetails) bool {
	return d != nil && d.Group == f.kind.Group && d.Kind == f.kind.Kind && d.Name == f.name
}
