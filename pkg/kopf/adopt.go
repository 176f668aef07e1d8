package kopf

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/annotations"
	"github.com/kopf-runtime/kopf-runtime/pkg/children"
)

// Adopt prepares new objects as children of Object. It adds an owner reference to each child, so that Kubernetes deletes the children after
// Object. A child without a namespace gets Object's namespace, and one without a name gets Object's name and a dash as its generateName.
// The child and its pod template get those labels of Object that they lack. Annotations that were copied from Object but don't belong to
// users are removed (see [UserAnnotations]).
//
// Adopt doesn't write to the API server. If Object can't own one of the children, for example because it is in a different namespace, Adopt
// returns an error and changes none of them. To apply children or to remove obsolete ones, use package children.
//
// Equivalent in kopf: kopf.adopt.
func (r *Request[T]) Adopt(objects ...client.Object) error {
	if r.Client == nil {
		return errors.New("the request has no client to look up the kinds: set its Client")
	}
	return children.Of(r.Object, r.Client).Adopt(objects...)
}

// UserAnnotations returns a copy of an object's annotations, without those of kopf-runtime, kopf and kubectl apply. Use it when you copy an
// object's annotations to its children, because the children would otherwise get the handlers' progress and the whole last-handled
// configuration, and change whenever these are written. UserAnnotations recognizes a store with its own prefix by the annotation
// "<prefix>/kopf-managed", and omits all annotations with that prefix. The map is never nil.
//
// [Request.Adopt] and package children remove these annotations from children.
func UserAnnotations(obj client.Object) map[string]string {
	return annotations.OfUsers(obj.GetAnnotations())
}
