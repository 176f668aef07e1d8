package kopf

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/annotations"
	"github.com/kopf-runtime/kopf-runtime/pkg/children"
)

// Adopt prepares new objects as children of Object. It adds an owner reference to each child, so that Kubernetes deletes the children after
// Object. A child without a namespace gets that of Object. A child without a name gets the name of Object and a dash as its generateName.
// Adopt adds the labels of Object that the child or its pod template lacks. It removes annotations that the child has received from Object
// and that don't belong to users (see [UserAnnotations]).
//
// Adopt doesn't write to the API server. If Object can't own one of the children, for example because the child is in a different
// namespace, Adopt returns an error and changes no child. To apply children or to remove obsolete ones, use package children.
//
// Equivalent in kopf: kopf.adopt.
func (r *Request[T]) Adopt(objects ...client.Object) error {
	if r.Client == nil {
		return errors.New("the request has no client to look up the kinds: set its Client")
	}
	return children.Of(r.Object, r.Client).Adopt(objects...)
}

// UserAnnotations returns a copy of the annotations of an object, without those of kopf-runtime, kopf and kubectl apply. Use it if you copy
// an object's annotations to its children. Otherwise, each child receives the progress of the handlers and the whole last-handled
// configuration, and changes whenever they are written. If a store has its own prefix, UserAnnotations recognizes it by the annotation
// "<prefix>/kopf-managed", and omits all annotations with that prefix. The map is never nil.
//
// [Request.Adopt] and package children remove these annotations from children.
func UserAnnotations(obj client.Object) map[string]string {
	return annotations.OfUsers(obj.GetAnnotations())
}
