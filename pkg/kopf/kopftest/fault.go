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

// A Fault makes an operator's requests fail or wait. If several faults match a request, the first one that is neither skipped nor used up
// applies.
type Fault struct {
	// Verb, Resource and Subresource select requests, with the values of [Write] and the verbs "get", "list" and "watch". An empty field
	// matches every value, except that an empty Verb doesn't match watches. Subresource "-" matches requests without a subresource.
	Verb, Resource, Subresource string
	// Skip is the number of matching requests to skip first. Times is how many requests the fault then applies to; 0 means one, and a
	// negative number means all. Requests to which an earlier fault applies don't count.
	Skip, Times int

	// Code is the status code of the response, such as 409, 429 or 500. The request doesn't reach the server. The response has the same
	// reason as a real one, such as Conflict for 409 and Expired for 410. A response with 429 asks the client to wait for a second;
	// client-go then retries up to ten times.
	Code int
	// Lost drops the response after the server has handled the request.
	Lost bool
	// Delay is the time before the request is sent.
	Delay time.Duration
	// Before is called before the request is sent. Use it for a concurrent change by another client. It runs in one of the operator's
	// goroutines, so it must not call t.Fatal.
	Before func()

	matched int // number of matching requests so far
}

var (
	errResponseLost = errors.New("response lost (injected by kopftest)")
	errCrashed      = errors.New("operator crashed (injected by kopftest)")
)

func (f *Fault) matches(r request) bool {
	switch {
	case r.verb == "": // not for objects, for example a discovery request
		return false
	case f.Verb != "" && f.Verb != r.verb, f.Verb == "" && r.verb == "watch", f.Resource != "" && f.Resource != r.resource:
		return false
	case f.Subresource == "-":
		return r.subresource == ""
	default:
		return f.Subresource == "" || f.Subresource == r.subresource
	}
}

// applies counts a matching request, and reports whether the fault applies to it.
func (f *Fault) applies() bool {
	f.matched++
	nth := f.matched - f.Skip
	return nth > 0 && (f.Times < 0 || nth <= max(1, f.Times))
}

// statusForCode returns the status that a real server would send.
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
	status.Message = fmt.Sprintf("%s (injected by kopftest)", http.StatusText(code))
	return status
}

// retryAfterSeconds is how long a response with 429 asks the client to wait.
const retryAfterSeconds = 1
