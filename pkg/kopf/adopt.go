package kopf

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
)

// Adopt makes objects children of Object, before they are created: it gives them an owner reference, by which Kubernetes
// deletes them with it, its namespace, its labels, and a name that begins with its own, as far as they
// have none. If it cannot own one of them, as that is in another namespace, none is changed. For more, such as
// children that are kept as they should be, see package children, which this stands on.
//
// kopf: kopf.adopt.
func (r *Request[T]) Adopt(objects ...client.Object) error {
	if r.Client == nil {
		return errors.New("the request has no client to know the kinds by: set its Client")
	}
	return children.Of(r.Object, r.Client).Adopt(objects...)
}
