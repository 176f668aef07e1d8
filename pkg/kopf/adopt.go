package kopf

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
)

// Adopt prepares new objects as children of Object. It adds an owner reference, so that Kubernetes deletes the children together with
// Object. It copies the namespace and the labels of Object, and sets a name prefix, unless the children already have them. It does not send
// a request. If Object cannot own one of the children, for example because of another namespace, Adopt returns an error and changes none of
// them. See package children for more, such as applying children and removing obsolete ones.
//
// kopf: kopf.adopt.
func (r *Request[T]) Adopt(objects ...client.Object) error {
	if r.Client == nil {
		return errors.New("the request has no client to look up the kinds: set its Client")
	}
	return children.Of(r.Object, r.Client).Adopt(objects...)
}
