package kopf

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/annotations"
	"github.com/kopf-runtime/kopf-runtime/pkg/children"
)

// Adopt prepares new objects as children of Object. It adds an owner reference to each child, so that Kubernetes deletes the children
// after Object. Adopt sets the namespace of a child without a namespace to the namespace of Object. It sets the generateName of a child without
// a name to the name of Object and a dash. It adds the labels of Object that the child or its pod template lacks. It removes annotations that the child
// has received from Object and that do not belong to users (see [UserAnnotations]).
//
// Adopt does not write to the API server. If Object cannot own one of the children, for example because the child is in another
// namespace, Adopt returns an error and changes no child. To apply children or to remove obsolete ones, use package children.
//
// Equivalent in kopf: kopf.adopt.
func (r *Request[T]) Adopt(objects ...client.Object) error {
	if r.Client == nil {
		return errors.New("the request has no client to look up the kinds: set its Client")
	}
	return children.Of(r.Object, r.Client).Adopt(objects...)
}

// UserAnnotations returns a copy of the annotations of an object, without those of kopf-runtime, kopf and kubectl apply. Use it in operators that copy the
// annotations of an object to its children. Otherwise, each child receives the progress of the handlers and the whole last-handled configuration, and changes
// with each of their writes. It recognizes the annotations of stores with a prefix of their own by the annotation "<prefix>/kopf-managed", and omits all
// annotations with such a prefix. The map is never nil.
//
// [Request.Adopt] and package children remove these annotations from children.
func UserAnnotations(obj client.Object) map[string]string {
	return annotations.OfUsers(obj.GetAnnotations())
}
