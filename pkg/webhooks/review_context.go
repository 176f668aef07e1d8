package webhooks

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// reviewReadTimeout is how long an API server may take to send its review. API servers wait at most 30 seconds for a response.
const reviewReadTimeout = 30 * time.Second

// reviewContext is the response writer of one HTTP request. If no handler can process the review, it sets an HTTP error status, so that the
// API server applies the failure policy. controller-runtime would set the status 200, and the API server would deny the request.
type reviewContext struct {
	http.ResponseWriter
	request  *http.Request
	log      logr.Logger // logger without the values of the review
	accepted bool        // whether the endpoint processes the review; the HTTP status is then always 200
	written  bool

	mu     sync.Mutex
	closed bool // whether the request has ended; the response writer must not be used afterwards
}

type reviewContextKey struct{}

// reviewContextFrom returns the reviewContext of the HTTP request, or an empty reviewContext if there is none.
func reviewContextFrom(ctx context.Context) *reviewContext {
	if x, ok := ctx.Value(reviewContextKey{}).(*reviewContext); ok {
		return x
	}
	return &reviewContext{}
}

// newHTTPHandler returns the HTTP handler of an endpoint.
//
// The logger of controller-runtime has the values of the review only at verbosity 5 and above, because creating a logger with these values
// takes longer than most handlers.
//
// While the server drains, each response closes its connection. Removing a pod from a Service's endpoints affects only new connections, so
// API servers would use existing ones until the server closes them, possibly with an unanswered review. For HTTP/2, the Go server sends
// GOAWAY in place of the Connection header.
func newHTTPHandler(e *endpoint, logger logr.Logger, readTimeout time.Duration, draining func() bool) http.Handler {
	hook := &admission.Webhook{Handler: e, LogConstructor: func(_ logr.Logger, req *admission.Request) logr.Logger {
		if !logger.V(5).Enabled() {
			return logger
		}
		return admission.DefaultLogConstructor(logger, req)
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &reviewContext{ResponseWriter: w, request: r, log: logger}
		defer time.AfterFunc(readTimeout, x.abortRead).Stop()
		defer x.close()
		if draining() {
			w.Header().Set("Connection", "close")
		}
		hook.ServeHTTP(x, r.WithContext(context.WithValue(r.Context(), reviewContextKey{}, x)))
	})
}

func (x *reviewContext) logger(req *admission.Request, handler string) logr.Logger {
	return admission.DefaultLogConstructor(x.log, req).WithValues("handler", handler, "operation", req.Operation)
}

// abortRead stops reading the request, because the review didn't arrive in time. Setting a read deadline at the start of each request would
// be slower: for HTTP/2, each deadline sends a message to the goroutine of the connection.
func (x *reviewContext) abortRead() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.closed {
		_ = http.NewResponseController(x.ResponseWriter).SetReadDeadline(time.Now()) // response writers of servers support deadlines
	}
}

func (x *reviewContext) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
}

// Write writes the response. controller-runtime passes the whole review in one call.
func (x *reviewContext) Write(text []byte) (int, error) {
	if !x.written && !x.accepted {
		x.WriteHeader(responseCode(text))
	}
	x.written = true
	return x.ResponseWriter.Write(text)
}

// responseCode returns the HTTP error code of the response in a review. The default is 500.
func responseCode(text []byte) int {
	var review admissionv1.AdmissionReview
	if json.Unmarshal(text, &review) != nil || review.Response == nil || review.Response.Result == nil ||
		review.Response.Result.Code < http.StatusBadRequest {
		return http.StatusInternalServerError
	}
	return int(review.Response.Result.Code)
}
