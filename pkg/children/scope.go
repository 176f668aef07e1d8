package children

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// A scope says whether objects of a kind are namespaced.
type scope int

const (
	unknown scope = iota // the server doesn't serve the kind
	clusterWide
	namespaced
)

func (o *Owner) scopeOf(gvk schema.GroupVersionKind) (scope, error) {
	is, err := apiutil.IsGVKNamespaced(gvk, o.client.RESTMapper())
	switch {
	case meta.IsNoMatchError(err):
		return unknown, nil
	case err != nil:
		return unknown, fmt.Errorf("children: finding the scope of %s: %w", gvk.Kind, err)
	case is:
		return namespaced, nil
	}
	return clusterWide, nil
}

// checkRelation returns an error if the owner can't own a child in the given namespace. The garbage collector looks for owners in the
// child's namespace, so it wouldn't find this owner and would delete the child.
func (o *Owner) checkRelation(c child, namespace string) error {
	ownerNamespace := o.obj.GetNamespace()
	switch {
	case c.GetUID() != "" && c.GetUID() == o.obj.GetUID():
		return fmt.Errorf("children: %s cannot own itself", c)
	case ownerNamespace != "" && c.scope == clusterWide:
		return fmt.Errorf("children: %s is cluster-scoped and cannot belong to %q in namespace %s: "+
			"use a cluster-scoped owner, or delete the child in a delete handler", c, o.obj.GetName(), ownerNamespace)
	case ownerNamespace != "" && namespace != ownerNamespace:
		return fmt.Errorf("children: %s is in namespace %q and cannot belong to %q in namespace %s: "+
			"remove its namespace, use Forced, or delete the child in a delete handler", c, namespace, o.obj.GetName(), ownerNamespace)
	case ownerNamespace == "" && namespace == "" && c.scope == namespaced:
		return fmt.Errorf("children: %s needs a namespace, but the owner %q is cluster-scoped: set one or use InNamespace", c, o.obj.GetName())
	}
	if other := metav1.GetControllerOf(c); o.controller && other != nil && other.UID != o.obj.GetUID() {
		return fmt.Errorf("children: use Controller(false) or remove the other controller: %w",
			&controllerutil.AlreadyOwnedError{Object: c, Owner: *other})
	}
	return nil
}
