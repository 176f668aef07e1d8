package webhooks

import (
	"context"
	"net/http"
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
	answered bool // by the endpoint: the status is in the review
	written  bool
}

type exchangeKey struct{}

// exchangeOf is the exchange that a review came with, or an empty one.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// handlerFor serves an endpoint.
func handlerFor(e *endpoint, logger logr.Logger) http.Handler {
	hook := &admission.Webhook{Handler: e, LogConstructor: func(_ logr.Logger, req *admission.Request) logr.Logger {
		return admission.DefaultLogConstructor(logger, req)
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not every writer can; those of servers do.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(patience))
		x := &exchange{ResponseWriter: w, request: r}
		w.Header().Set("Content-Type", "application/json")
		hook.ServeHTTP(x, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	})
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
