package children

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// An Owner is the owner of child objects. Its methods accept any number of children, typed or unstructured, and skip nil. They check the
// kinds and namespaces of all children before they change any of them. [Owner.Apply] and [Owner.Create] also check the names.
type Owner struct {
	obj    client.Object
	client client.Client
	set    string // name of the set that uses the owner; empty without a set
	options
}

// Of returns an [Owner] for an object. The client is used to look up kinds and scopes, and to write. The Owner's methods report invalid
// objects and options.
func Of(owner client.Object, c client.Client, opts ...Option) *Owner {
	o := &Owner{obj: owner, client: c, options: options{controller: true, blockDeletion: true}}
	for _, opt := range opts {
		opt(&o.options)
	}
	return o
}

func (o *Owner) check() error {
	switch {
	case isNil(o.obj):
		return errors.New("children: owner is nil: pass an object to Of")
	case o.client == nil:
		return errors.New("children: client is nil: pass a client to Of, such as mgr.GetClient()")
	case o.err != nil:
		return fmt.Errorf("children: %w", o.err)
	}
	return nil
}

// ownerKind returns the kind of the owner, or an error if no child can refer to it.
func (o *Owner) ownerKind() (schema.GroupVersionKind, error) {
	gvk, err := o.kindOf(o.obj)
	switch {
	case err != nil:
		return gvk, fmt.Errorf("children: owner: %w", err)
	case o.obj.GetName() == "" || o.obj.GetUID() == "":
		return gvk, fmt.Errorf("children: owner %s has no name or no uid: use the object as read from the API server", nameOf(gvk, o.obj))
	}
	return gvk, nil
}

func (o *Owner) kindOf(obj client.Object) (schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(obj, o.client.Scheme())
	if err != nil {
		return gvk, fmt.Errorf("object %q of type %T has no kind: add its type to the scheme of the client, "+
			"or set apiVersion and kind if it is unstructured: %w", obj.GetName(), obj, err)
	}
	return gvk, nil
}

// A child is an object with its kind and scope.
type child struct {
	client.Object
	gvk   schema.GroupVersionKind
	scope scope
}

// resolve looks up the kinds and scopes of the children. It skips nil.
func (o *Owner) resolve(objects []client.Object) (children []child, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	var errs []error
	for _, obj := range objects {
		if isNil(obj) {
			continue
		}
		gvk, err := o.kindOf(obj)
		if err != nil {
			errs = append(errs, fmt.Errorf("children: %w", err))
			continue
		}
		scope, err := o.scopeOf(gvk)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		children = append(children, child{obj, gvk, scope})
	}
	return children, errors.Join(errs...)
}

func (c child) String() string { return nameOf(c.gvk, c.Object) }

func nameOf(gvk schema.GroupVersionKind, obj client.Object) string {
	name := obj.GetName()
	if name == "" {
		name = obj.GetGenerateName() + "?"
	}
	if obj.GetNamespace() != "" {
		name = obj.GetNamespace() + "/" + name
	}
	return gvk.Kind + " " + name
}

func isNil(obj client.Object) bool {
	if obj == nil {
		return true
	}
	v := reflect.ValueOf(obj)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
