package children

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Adopt sets the owner reference, name, namespace and labels of children, like [Owner.AppendReference], [Owner.HarmonizeNaming],
// [Owner.AdjustNamespace] and [Owner.Label]. Equivalent in kopf: adopt. If a child is invalid, no child is changed. Adopt doesn't write to
// the API server.
//
// Adopt drops annotations that shouldn't be copied from an owner to its children: those where kopf or package kopf store their data, and
// that of kubectl apply. It drops them where the child has the same value as its owner, even in pod templates and other nested structures.
// So an operator can simply copy all annotations of the owner. An existing child of the owner's kind keeps them, because they may be its
// own.
func (o *Owner) Adopt(children ...client.Object) error {
	_, err := o.adopt(children)
	return err
}

// adopt validates all children before it changes any of them. The checks receive empty objects with the kinds, names and namespaces the
// children will have.
func (o *Owner) adopt(objects []client.Object, checks ...func(adopted []child) error) ([]child, error) {
	children, err := o.resolve(objects)
	if err != nil {
		return nil, err
	}
	ref, err := o.reference()
	if err != nil {
		return nil, err
	}
	name, err := o.defaultName()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, c := range children {
		errs = append(errs, o.checkRelation(c, o.namespaceFor(c)))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, check := range checks {
		if err := check(o.named(children, name)); err != nil {
			return nil, err
		}
	}
	for _, c := range children {
		appendReference(c, ref)
		o.setName(c, name)
		c.SetNamespace(o.namespaceFor(c))
		o.label(c)
		o.dropCopied(c, schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind())
	}
	return children, nil
}

// named returns empty objects with the kinds, names and namespaces the children will have.
func (o *Owner) named(children []child, name string) []child {
	out := make([]child, len(children))
	for i, c := range children {
		out[i] = child{c.newObject(), c.gvk, c.scope}
		out[i].SetName(c.GetName())
		out[i].SetGenerateName(c.GetGenerateName())
		o.setName(out[i], name)
		out[i].SetNamespace(o.namespaceFor(c))
	}
	return out
}

// AppendReference adds the owner reference to children that don't refer to the owner's uid yet. Equivalent in kopf: append_owner_reference.
func (o *Owner) AppendReference(children ...client.Object) error {
	resolved, err := o.resolve(children)
	if err != nil {
		return err
	}
	ref, err := o.reference()
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range resolved {
		namespace := c.GetNamespace()
		if namespace == "" { // AdjustNamespace may set it later
			namespace = o.namespaceFor(c)
		}
		errs = append(errs, o.checkRelation(c, namespace))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, c := range resolved {
		appendReference(c, ref)
	}
	return nil
}

// RemoveReference removes all references to the owner's uid. Equivalent in kopf: remove_owner_reference.
func (o *Owner) RemoveReference(children ...client.Object) error {
	resolved, err := o.resolve(children)
	if err != nil {
		return err
	}
	for _, c := range resolved {
		refs := c.GetOwnerReferences()
		kept := slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool { return ref.UID == o.obj.GetUID() })
		if len(kept) < len(refs) {
			c.SetOwnerReferences(kept)
		}
	}
	return nil
}

func (o *Owner) reference() (metav1.OwnerReference, error) {
	gvk, err := o.ownerKind()
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
	if hasReference(c, ref.UID) {
		return
	}
	controller, blocks := *ref.Controller, *ref.BlockOwnerDeletion // don't share pointers between children
	ref.Controller, ref.BlockOwnerDeletion = &controller, &blocks
	c.SetOwnerReferences(append(slices.Clip(c.GetOwnerReferences()), ref))
}

func hasReference(obj client.Object, uid types.UID) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == uid })
}

// HarmonizeNaming sets the generateName of children to the owner's name and a hyphen. With [Strict], it sets the name to the owner's name.
// Children that already have a name or a generateName keep it, unless [Forced] is set. Equivalent in kopf: harmonize_naming.
func (o *Owner) HarmonizeNaming(children ...client.Object) error {
	resolved, err := o.resolve(children)
	if err != nil {
		return err
	}
	name, err := o.defaultName()
	if err != nil {
		return err
	}
	for _, c := range resolved {
		o.setName(c, name)
	}
	return nil
}

func (o *Owner) defaultName() (string, error) {
	name := o.obj.GetName()
	if o.name != nil {
		name = *o.name
	}
	if name == "" {
		return "", fmt.Errorf("children: owner has no name: set one or use Named")
	}
	return name, nil
}

func (o *Owner) setName(c child, name string) {
	switch {
	case !o.force && (c.GetName() != "" || c.GetGenerateName() != ""):
	case o.strict:
		c.SetName(name)
		c.SetGenerateName("")
	default:
		c.SetName("")
		c.SetGenerateName(name + "-")
	}
}

// AdjustNamespace puts children without a namespace into that of [InNamespace], or else into the owner's. Cluster-scoped children lose
// theirs. Equivalent in kopf: adjust_namespace.
func (o *Owner) AdjustNamespace(children ...client.Object) error {
	resolved, err := o.resolve(children)
	if err != nil {
		return err
	}
	for _, c := range resolved {
		c.SetNamespace(o.namespaceFor(c))
	}
	return nil
}

func (o *Owner) namespaceFor(c child) string {
	namespace := o.obj.GetNamespace()
	if o.namespace != nil {
		namespace = *o.namespace
	}
	if c.scope == clusterWide {
		return "" // cluster-scoped objects have no namespace
	}
	if namespace == "" || c.GetNamespace() != "" && !o.force {
		return c.GetNamespace()
	}
	return namespace
}

// Label adds the owner's labels, or those of [Labels], to children, their pod templates, and structures selected with [Nested]. Existing
// labels are kept, unless [Forced] is set. Equivalent in kopf: label.
func (o *Owner) Label(children ...client.Object) error {
	resolved, err := o.resolve(children)
	if err != nil {
		return err
	}
	for _, c := range resolved {
		o.label(c)
	}
	return nil
}

func (o *Owner) label(c child) {
	labels := withoutSetLabels(o.obj.GetLabels())
	if o.labels != nil {
		labels = o.labels
	}
	if len(labels) == 0 {
		return
	}
	c.SetLabels(o.mergeLabels(c.GetLabels(), labels))
	paths := o.nested
	if !o.plainTemplates {
		paths = append(slices.Clip(paths), templates[c.gvk.GroupKind()]...)
	}
	for _, path := range paths {
		labelNested(c.Object, path, func(old map[string]string) map[string]string { return o.mergeLabels(old, labels) })
	}
}

func (o *Owner) mergeLabels(old, labels map[string]string) map[string]string {
	stronger := old
	if o.force {
		labels, stronger = old, labels
	}
	merged := map[string]string{}
	maps.Copy(merged, labels)
	maps.Copy(merged, stronger)
	return merged
}
