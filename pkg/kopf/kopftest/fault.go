package kopftest

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Fault is something that goes wrong with requests of an operator. The first one that fits a request has its way
// with it.
type Fault struct {
	// Verb, Resource and Subresource choose the requests, as in a [Write]; reads are "get", "list" and "watch". Empty: any,
	// but of watches, which have to be named; Subresource "-" is the object itself.
	Verb, Resource, Subresource string
	// Skip lets so many of them pass first; Times is how many it happens to, 0: one, below 0: all.
	Skip, Times int

	// Code is answered, without the server having seen the request: 409, 429, 500 ... Beside it stands the reason that a real server would
	// give: of 409 that is a conflict, of 410 that what was asked for has expired. With 429 the client is asked to wait for a
	// second: client-go does, and tries again, up to ten times, before anybody learns of it.
	Code int
	// Lost drops the answer, after the server has done what was asked for.
	Lost bool
	// Delay is waited before the request is sent.
	Delay time.Duration
	// Before is called before the request is sent: what somebody else does just then. It is called in a goroutine of the operator: to end the
	// test there would not end it.
	Before func()

	matched int // requests that fit
}

var (
	errResponseLost = errors.New("the answer is lost, says the test")
	errCrashed      = errors.New("the operator has crashed, says the test")
)

func (f *Fault) matches(r request) bool {
	switch {
	case r.verb == "": // discovery, say
		return false
	case f.Verb != "" && f.Verb != r.verb, f.Verb == "" && r.verb == "watch", f.Resource != "" && f.Resource != r.resource:
		return false
	case f.Subresource == "-":
		return r.subresource == ""
	default:
		return f.Subresource == "" || f.Subresource == r.subresource
	}
}

// strikes counts the request, and tells whether it is one of those that it happens to.
func (f *Fault) applies() bool {
	f.matched++
	nth := f.matched - f.Skip
	return nth > 0 && (f.Times < 0 || nth <= max(1, f.Times))
}

// statusOf is what a real server says beside a code.
func statusForCode(code int) metav1.Status {
	status := apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", "", 0, false).Status()
	switch code {
	case http.StatusGone:
		status.Reason = metav1.StatusReasonExpired
	case http.StatusRequestEntityTooLarge:
		status.Reason = metav1.StatusReasonRequestEntityTooLarge
	case http.StatusTooManyRequests:
		status.Details.RetryAfterSeconds = retryAfterSeconds
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	status.Message = fmt.Sprintf("%s, says the test", http.StatusText(code))
	return status
}

// retryAfterSeconds is when, in seconds, a server that has too much to do asks to be asked again.
const retryAfterSeconds = 1
