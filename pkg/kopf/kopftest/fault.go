package kopftest

import (
	"errors"
	"net/http"
	"time"
)

// A Fault is something that goes wrong with requests of an operator. The first one that fits a request has its way
// with it.
type Fault struct {
	// Verb, Resource and Subresource choose the requests, as in a [Write]; reads are "get", "list" and "watch". Empty: any,
	// but of watches, which have to be named; Subresource "-" is the object itself.
	Verb, Resource, Subresource string
	// Skip lets so many of them pass first; Times is how many it happens to, 0: one, below 0: all.
	Skip, Times int

	// Code is answered, without the server having seen the request: 409, 429, 500 ...
	Code int
	// Lost drops the answer, after the server has done what was asked for.
	Lost bool
	// Delay is waited before the request is sent.
	Delay time.Duration
	// Before is called before the request is sent: what somebody else does just then. It is called in a goroutine of the operator: to end the
	// test there would not end it.
	Before func()

	met int // requests that fit
}

var (
	errLost = errors.New("the answer is lost, says the test")
	errCut  = errors.New("the operator has crashed, says the test")
)

func (f *Fault) fits(r request) bool {
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
func (f *Fault) strikes() bool {
	f.met++
	nth := f.met - f.Skip
	return nth > 0 && (f.Times < 0 || nth <= max(1, f.Times))
}

// reason is what a real server says beside a code.
func reason(code int) string {
	switch code {
	case http.StatusConflict:
		return "Conflict"
	case http.StatusTooManyRequests:
		return "TooManyRequests"
	case http.StatusForbidden:
		return "Forbidden"
	case http.StatusNotFound:
		return "NotFound"
	case http.StatusUnprocessableEntity:
		return "Invalid"
	case http.StatusGatewayTimeout:
		return "Timeout"
	case http.StatusServiceUnavailable:
		return "ServiceUnavailable"
	default:
		return "InternalError"
	}
}
