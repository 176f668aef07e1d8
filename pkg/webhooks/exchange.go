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

// patience is how long a client may take to send its review. The API server waits for no answer longer.
const patience = 30 * time.Second

// An exchange is one HTTP request. Reviews that could not be brought before a handler get an HTTP error: to the API
// server, that is a failed call, for which there is the failure policy. By themselves, they would be
// answered with 200, and be denials.
type exchange struct {
	http.ResponseWriter
	request  *http.Request
	log      logr.Logger // of all exchanges
	answered bool        // by the endpoint: the status is in the review
	written  bool

	mu    sync.Mutex
	ended bool // the writer is not to be used any more
}

type exchangeKey struct{}

// exchangeOf is the exchange that a review came with, or an empty one.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// handlerFor serves an endpoint. Values are given to the logger once for each review, as far as nobody listens to
// what controller-runtime itself says of it: they take longer than most handlers. The answer has no Content-Type, as
// those of controller-runtime have none: API servers take it for JSON whatever it says, and it is a tenth of the time.
//
// Endpoints of a Service concern new connections alone: API servers would go on with those that they have, until the server
// cuts them off, maybe with a review on its way, which nobody sends again. Who is leaving has them closed by the API servers:
// over HTTP/2, Go makes a GOAWAY of the same header.
func handlerFor(e *endpoint, logger logr.Logger, patience time.Duration, leaving func() bool) http.Handler {
	hook := &admission.Webhook{Handler: e, LogConstructor: func(_ logr.Logger, req *admission.Request) logr.Logger {
		if !logger.V(5).Enabled() {
			return logger
		}
		return admission.DefaultLogConstructor(logger, req)
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{ResponseWriter: w, request: r, log: logger}
		defer time.AfterFunc(patience, x.cutOff).Stop()
		defer x.end()
		if leaving() {
			w.Header().Set("Connection", "close")
		}
		hook.ServeHTTP(x, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	})
}

// logger is that of one review.
func (x *exchange) logger(req *admission.Request, handler string) logr.Logger {
	return admission.DefaultLogConstructor(x.log, req).WithValues("handler", handler, "operation", req.Operation)
}

// cutOff ends the reading of a review that does not come. A deadline from the beginning would do the same, and
// cost each request a detour through the loop of its HTTP/2 connection.
func (x *exchange) cutOff() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.ended {
		_ = http.NewResponseController(x.ResponseWriter).SetReadDeadline(time.Now()) // those of servers can
	}
}

func (x *exchange) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
}

// Write is given whole reviews.
func (x *exchange) Write(text []byte) (int, error) {
	if !x.written && !x.answered {
		x.WriteHeader(statusIn(text))
	}
	x.written = true
	return x.ResponseWriter.Write(text)
}

// statusIn is the code of the refusal in a review.
func statusIn(text []byte) int {
	var review admissionv1.AdmissionReview
	if json.Unmarshal(text, &review) != nil || review.Response == nil || review.Response.Result == nil ||
		review.Response.Result.Code < http.StatusBadRequest {
		return http.StatusInternalServerError
	}
	return int(review.Response.Result.Code)
}
