package webhooks

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// Handler reviews a request before the API server executes it. A mutating handler can also change the object.
//
// A handler returns nil to allow the request, and an error to deny it. [Deny] sets the status of the response. Errors of package field
// become the causes of an Invalid status. An Invalid API error for the reviewed object is returned unchanged. With any other error, the
// handler has failed: the server logs the error, and the client receives an internal error without details. The server calls a handler at
// most once for each review.
//
// The context is cancelled after the hook's timeout, or when the API server closes the request. It contains a logger.
type Handler[T client.Object] func(ctx context.Context, req *Request[T]) error

// Request is the argument of a [Handler].
type Request[T client.Object] struct {
	// Object is the requested new state of the object. For a deletion, it is the object to be deleted. Object is a copy for this call. The
	// server returns a mutating handler's changes to the API server, unless the handler denies the request. It discards the changes of a
	// validating handler, and changes during a deletion.
	Object T
	// Old is the stored object. It is nil for a creation, and equal to Object for a deletion.
	Old T
	*Call
}

// Call contains a request's attributes besides its objects.
type Call struct {
	// Operation is Create, Update, Delete or Connect.
	Operation admissionv1.Operation
	// Subresource is the requested subresource, such as "status". It is empty for the object itself.
	Subresource string
	// DryRun means that the request won't be persisted, so the handler must not have side effects.
	DryRun bool
	// User is the user who sent the request.
	User authenticationv1.UserInfo
	// Review is the request as it was received, with the requested kind, the options, the objects as JSON and the UID.
	Review *admissionv1.AdmissionRequest
	// Header and TLS belong to the HTTP request of the API server. Both are nil without an HTTP request, as in tests. TLS contains a
	// certificate of the API server only if the webhook server requests client certificates (ClientCAName).
	Header http.Header
	TLS    *tls.ConnectionState
	// Client is the manager's client, which reads from the manager's cache by default.
	Client client.Client

	warnings []string
	diffOnce sync.Once
	diff     diff.Diff
}

// Warn adds warnings to the response, whether the request is allowed or denied. kubectl prints them. Keep each text below 120 characters if
// possible, because the API server may truncate texts of more than 256.
func (c *Call) Warn(texts ...string) { c.warnings = append(c.warnings, texts...) }

// Warnings returns the texts passed to [Call.Warn], for tests of handlers.
func (c *Call) Warnings() []string { return c.warnings }

// Diff returns the difference between the stored object and the requested one, including metadata and status. For a creation, the whole
// object is added, and for a deletion, it is removed. Diff doesn't include the handler's changes. The first call computes the difference
// from the JSON of the review.
func (c *Call) Diff() diff.Diff {
	c.diffOnce.Do(func() {
		if c.Review != nil {
			c.diff = diff.Of(unmarshalObject(c.Review.OldObject.Raw), unmarshalObject(c.Review.Object.Raw))
		}
	})
	return c.diff
}

func newCall(review *admissionv1.AdmissionRequest, c client.Client, r *http.Request) *Call {
	call := &Call{
		Operation:   review.Operation,
		Subresource: review.SubResource,
		DryRun:      review.DryRun != nil && *review.DryRun,
		User:        review.UserInfo,
		Review:      review,
		Client:      c,
	}
	if r != nil {
		call.Header, call.TLS = r.Header, r.TLS
	}
	return call
}

// unmarshalObject decodes the JSON of an object. It returns nil for empty or invalid JSON.
func unmarshalObject(raw []byte) any {
	var value map[string]any
	if len(raw) == 0 || json.Unmarshal(raw, &value) != nil {
		return nil // the decoder rejects invalid JSON before the handler is called
	}
	return value
}

// untypedHandler is a handler without its type parameter. It returns the object with the handler's changes.
type untypedHandler func(ctx context.Context, object, old client.Object, call *Call) (client.Object, error)

func withoutType[T client.Object](fn Handler[T]) untypedHandler {
	return func(ctx context.Context, object, old client.Object, call *Call) (client.Object, error) {
		req := &Request[T]{Call: call}
		req.Object, _ = object.(T)
		req.Old, _ = old.(T)
		err := fn(ctx, req)
		return req.Object, err
	}
}
