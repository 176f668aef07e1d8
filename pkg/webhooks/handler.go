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

// A Handler judges a request to the API server before it is carried out; a mutating one may also change
// the object. nil lets the request through. An error denies it: [Deny] says with which status, errors of
// package field become the causes of an Invalid one, and all others are faults of the handler: the caller
// learns no more than that there was one. It runs once; nothing is retried.
//
// The context ends when the API server does not wait any more, and carries a logger.
type Handler[T client.Object] func(ctx context.Context, req *Request[T]) error

// A Request is what a handler is asked to judge.
type Request[T client.Object] struct {
	// Object is as it will be after the request; for a deletion, it is what will be deleted. It is a
	// private copy. What a mutating handler changes in it, the API server changes in the request, unless
	// it is denied; what a validating one changes is dropped.
	Object T
	// Old is the object as it is stored; nil if it is being created, the same as Object if it is being deleted.
	Old T
	*Call
}

// A Call is what is known of a request besides its objects.
type Call struct {
	// Operation is Create, Update, Delete or Connect.
	Operation admissionv1.Operation
	// Subresource is what of the object is requested, such as "status"; empty for the object itself.
	Subresource string
	// DryRun: nothing will be stored, so the handler must not have any effects of its own, either.
	DryRun bool
	// User is who has made the request.
	User authenticationv1.UserInfo
	// Review is the request as it came: the kind that was asked for, the options, the objects as JSON, the uid.
	Review *admissionv1.AdmissionRequest
	// Header and TLS are of the API server's request; nil if there was none, as in tests.
	// A certificate of the API server is in TLS only if the server asks for it (ClientCAName).
	Header http.Header
	TLS    *tls.ConnectionState
	// Client is that of the manager: it reads from its cache.
	Client client.Client

	warnings []string
	compare  sync.Once
	diff     diff.Diff
}

// Warn shows texts to whoever has made the request, whether it is denied or not: kubectl prints them. Keep
// them under 120 characters each; longer ones may be cut by the API server.
func (c *Call) Warn(texts ...string) { c.warnings = append(c.warnings, texts...) }

// Warnings are the texts that [Call.Warn] was given: for tests of handlers.
func (c *Call) Warnings() []string { return c.warnings }

// Diff tells what the request does to the whole object, metadata and status included, from its JSON: all
// is new on creation, and gone on deletion. What the handler itself changes is not in it. It is
// calculated when it is first asked for.
func (c *Call) Diff() diff.Diff {
	c.compare.Do(func() {
		if c.Review != nil {
			c.diff = diff.Of(generic(c.Review.OldObject.Raw), generic(c.Review.Object.Raw))
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

// generic is the JSON form of an object, as unstructured objects have it; nil if there is none.
func generic(raw []byte) any {
	var value map[string]any
	if len(raw) == 0 || json.Unmarshal(raw, &value) != nil {
		return nil // what is no JSON has not come as far as to a handler
	}
	return value
}

// A form of the handler without its type parameter. It returns the object as it was left.
type erased func(ctx context.Context, object, old client.Object, call *Call) (client.Object, error)

func erase[T client.Object](fn Handler[T]) erased {
	return func(ctx context.Context, object, old client.Object, call *Call) (client.Object, error) {
		req := &Request[T]{Call: call}
		req.Object, _ = object.(T)
		req.Old, _ = old.(T)
		err := fn(ctx, req)
		return req.Object, err
	}
}
