package kopf

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
)

// Adopt prepares new objects as children of Object. It adds an owner reference to each child, so that Kubernetes deletes the children
// after Object. Adopt sets the namespace of a child without a namespace to the namespace of Object. It sets the generateName of a child without
// a name to the name of Object and a dash. It adds the labels of Object that the child or its pod template lacks.
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
