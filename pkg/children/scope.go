package children

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// A scope is whether objects of a kind live in namespaces.
type scope int

const (
	unknown scope = iota // the server does not serve the kind, or nobody can be asked
	clusterWide
	namespaced
)

func (o *Owner) scopeOf(gvk schema.GroupVersionKind) (scope, error) {
	is, err := apiutil.IsGVKNamespaced(gvk, o.client.RESTMapper())
	switch {
	case meta.IsNoMatchError(err):
		return unknown, nil
	case err != nil:
		return unknown, fmt.Errorf("children: the scope of %s cannot be found: %w", gvk.Kind, err)
	case is:
		return namespaced, nil
	}
	return clusterWide, nil
}

// refusal tells why the owner cannot have the child in that namespace. The garbage collector looks for owners
// in the namespace of the child; it would not find this one, and delete the child.
func (o *Owner) refusal(c child, namespace string) error {
	home := o.obj.GetNamespace()
	switch {
	case c.GetUID() != "" && c.GetUID() == o.obj.GetUID():
		return fmt.Errorf("children: %s cannot own itself", c)
	case home != "" && c.scope == clusterWide:
		return fmt.Errorf("children: %s has no namespace and cannot belong to %q of the namespace %s: "+
			"use an owner without a namespace, or delete the child with a delete handler", c, o.obj.GetName(), home)
	case home != "" && namespace != home:
		return fmt.Errorf("children: %s is in the namespace %q and cannot belong to %q of the namespace %s: "+
			"leave its namespace out, use Forced, or delete the child with a delete handler", c, namespace, o.obj.GetName(), home)
	case home == "" && namespace == "" && c.scope == namespaced:
		return fmt.Errorf("children: %s needs a namespace, and the owner %q has none: set it, or use InNamespace", c, o.obj.GetName())
	}
	if other := metav1.GetControllerOf(c); o.controller && other != nil && other.UID != o.obj.GetUID() {
		return fmt.Errorf("children: use Controller(false), or take the other controller away: %w",
			&controllerutil.AlreadyOwnedError{Object: c, Owner: *other})
	}
	return nil
}
