package children

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Adopt makes objects children: it gives them the reference to the owner, a name, a namespace and labels, as
// [Owner.AppendReference], [Owner.HarmonizeNaming], [Owner.AdjustNamespace] and [Owner.Label] do (kopf: adopt). If the owner
// cannot have one of them, none is changed. Nothing is written to the server.
func (o *Owner) Adopt(children ...client.Object) error {
	_, err := o.adopt(children)
	return err
}

func (o *Owner) adopt(objects []client.Object) ([]child, error) {
	children, err := o.family(objects)
	if err != nil {
		return nil, err
	}
	ref, err := o.reference()
	if err != nil {
		return nil, err
	}
	name, err := o.childrensName()
	if err != nil {
		return nil, err
	}
	var refusals []error
	for _, c := range children {
		refusals = append(refusals, o.refusal(c, o.namespaceFor(c)))
	}
	if err := errors.Join(refusals...); err != nil {
		return nil, err
	}
	for _, c := range children {
		appendReference(c, ref)
		o.harmonize(c, name)
		c.SetNamespace(o.namespaceFor(c))
		o.label(c)
	}
	return children, nil
}

// AppendReference refers children to their owner, unless they have a reference to its uid, whatever that looks like
// (kopf: append_owner_reference).
func (o *Owner) AppendReference(children ...client.Object) error {
	family, err := o.family(children)
	if err != nil {
		return err
	}
	ref, err := o.reference()
	if err != nil {
		return err
	}
	var refusals []error
	for _, c := range family {
		namespace := c.GetNamespace()
		if namespace == "" { // it may get one yet
			namespace = o.namespaceFor(c)
		}
		refusals = append(refusals, o.refusal(c, namespace))
	}
	if err := errors.Join(refusals...); err != nil {
		return err
	}
	for _, c := range family {
		appendReference(c, ref)
	}
	return nil
}

// RemoveReference removes all references to the uid of the owner (kopf: remove_owner_reference).
func (o *Owner) RemoveReference(children ...client.Object) error {
	family, err := o.family(children)
	if err != nil {
		return err
	}
	for _, c := range family {
		refs := c.GetOwnerReferences()
		kept := slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool { return ref.UID == o.obj.GetUID() })
		if len(kept) < len(refs) {
			c.SetOwnerReferences(kept)
		}
	}
	return nil
}

func (o *Owner) reference() (metav1.OwnerReference, error) {
	gvk, err := o.identified()
	if err != nil {
		return metav1.OwnerReference{}, err
	}
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	return metav1.OwnerReference{
		APIVersion: apiVersion, Kind: kind, Name: o.obj.GetName(), UID: o.obj.GetUID(),
		Controller: &o.controller, BlockOwnerDeletion: &o.blockDeletion,
	}, nil
}

func appendReference(c child, ref metav1.OwnerReference) {
	if refers(c, ref.UID) {
		return
	}
	controller, blocks := *ref.Controller, *ref.BlockOwnerDeletion // each child has its own
	ref.Controller, ref.BlockOwnerDeletion = &controller, &blocks
	c.SetOwnerReferences(append(slices.Clip(c.GetOwnerReferences()), ref))
}

func refers(obj client.Object, uid types.UID) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == uid })
}

// HarmonizeNaming names children that have neither a name nor a prefix for one after the owner (kopf: harmonize_naming).
func (o *Owner) HarmonizeNaming(children ...client.Object) error {
	family, err := o.family(children)
	if err != nil {
		return err
	}
	name, err := o.childrensName()
	if err != nil {
		return err
	}
	for _, c := range family {
		o.harmonize(c, name)
	}
	return nil
}

func (o *Owner) childrensName() (string, error) {
	name := o.obj.GetName()
	if o.name != nil {
		name = *o.name
	}
	if name == "" {
		return "", fmt.Errorf("children: there is no name for children: give the owner one, or use Named with one")
	}
	return name, nil
}

func (o *Owner) harmonize(c child, name string) {
	switch {
	case !o.forced && (c.GetName() != "" || c.GetGenerateName() != ""):
	case o.strict:
		c.SetName(name)
		c.SetGenerateName("")
	default:
		c.SetName("")
		c.SetGenerateName(name + "-")
	}
}

// AdjustNamespace brings children without a namespace into that of the owner. Those of kinds without namespaces get
// none, and an owner without one gives none (kopf: adjust_namespace).
func (o *Owner) AdjustNamespace(children ...client.Object) error {
	family, err := o.family(children)
	if err != nil {
		return err
	}
	for _, c := range family {
		c.SetNamespace(o.namespaceFor(c))
	}
	return nil
}

func (o *Owner) namespaceFor(c child) string {
	namespace := o.obj.GetNamespace()
	if o.namespace != nil {
		namespace = *o.namespace
	}
	if c.scope == clusterWide || namespace == "" || c.GetNamespace() != "" && !o.forced {
		return c.GetNamespace()
	}
	return namespace
}

// Label gives children the labels that they do not have, and so the structures in them that [Nested] is about
// (kopf: label).
func (o *Owner) Label(children ...client.Object) error {
	family, err := o.family(children)
	if err != nil {
		return err
	}
	for _, c := range family {
		o.label(c)
	}
	return nil
}

func (o *Owner) label(c child) {
	labels := o.obj.GetLabels()
	if o.labels != nil {
		labels = o.labels
	}
	if len(labels) == 0 {
		return
	}
	c.SetLabels(o.merged(c.GetLabels(), labels))
	paths := o.nested
	if !o.plainTemplates {
		paths = append(slices.Clip(paths), templates[c.gvk.GroupKind()]...)
	}
	for _, path := range paths {
		labelNested(c.Object, path, func(old map[string]string) map[string]string { return o.merged(old, labels) })
	}
}

func (o *Owner) merged(old, labels map[string]string) map[string]string {
	stronger := old
	if o.forced {
		labels, stronger = old, labels
	}
	merged := map[string]string{}
	maps.Copy(merged, labels)
	maps.Copy(merged, stronger)
	return merged
}
