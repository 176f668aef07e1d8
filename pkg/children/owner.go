package children

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// An Owner is what children belong to. Its methods take any number of children, typed or not; nil among them is
// skipped. All children are looked at before any is changed.
type Owner struct {
	obj    client.Object
	client client.Client
	options
}

// Of makes an object the owner of children to come. The client tells the kinds and their scopes, and is what
// [Owner.Apply] and [Owner.Create] write with. Mistakes in the object or the options are told by the methods.
func Of(owner client.Object, c client.Client, opts ...Option) *Owner {
	o := &Owner{obj: owner, client: c, options: options{controller: true, blockDeletion: true}}
	for _, opt := range opts {
		opt(&o.options)
	}
	return o
}

// check tells what is wrong with the owner itself.
func (o *Owner) check() error {
	switch {
	case isNil(o.obj):
		return errors.New("children: the owner is nil")
	case o.client == nil:
		return errors.New("children: the owner has no client: give Of one, such as that of the manager")
	case o.mistake != nil:
		return fmt.Errorf("children: %w", o.mistake)
	}
	return nil
}

// identified tells whether the owner can be referred to, and as what.
func (o *Owner) identified() (schema.GroupVersionKind, error) {
	gvk, err := o.kindOf(o.obj)
	switch {
	case err != nil:
		return gvk, fmt.Errorf("children: the owner: %w", err)
	case o.obj.GetName() == "" || o.obj.GetUID() == "":
		return gvk, fmt.Errorf("children: the owner %s has no name or no uid: take the object as the server has it", nameOf(gvk, o.obj))
	}
	return gvk, nil
}

func (o *Owner) kindOf(obj client.Object) (schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(obj, o.client.Scheme())
	if err != nil {
		return gvk, fmt.Errorf("the object %q of the type %T has no kind: add its type to the scheme of the client, "+
			"or set apiVersion and kind if it is unstructured: %w", obj.GetName(), obj, err)
	}
	return gvk, nil
}

// A child is an object with what is known of its kind.
type child struct {
	client.Object
	gvk   schema.GroupVersionKind
	scope scope
}

// family looks at the children. Those that are nil are left out.
func (o *Owner) family(objects []client.Object) (children []child, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	var mistakes []error
	for _, obj := range objects {
		if isNil(obj) {
			continue
		}
		gvk, err := o.kindOf(obj)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("children: %w", err))
			continue
		}
		scope, err := o.scopeOf(gvk)
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		children = append(children, child{obj, gvk, scope})
	}
	return children, errors.Join(mistakes...)
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
