package children

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// A set's children are labeled with its name and the owner's uid, because the owner's name can be too long for a label.
const (
	setLabel      = "kopf-runtime.dev/set"
	setOwnerLabel = "kopf-runtime.dev/set-owner"

	positionAnnotation = "kopf-runtime.dev/set-position"
)

const maxPruneAttempts = 3

// A Set is a named group of children. [Set.Apply] applies the listed children and deletes all others of the group. It recognizes them by
// the labels "kopf-runtime.dev/set" and "kopf-runtime.dev/set-owner" and the owner reference, so a Set needs no memory and works after a
// restart.
type Set struct {
	owner *Owner
	name  string
	kinds []client.Object
}

// Set returns a group of children. The name must be unique among the owner's groups and valid as a label value. The objects define which
// kinds the group can contain, and can be empty, such as &corev1.Service{}. If you no longer need a kind, keep it here until all its
// children are deleted, because [Set.Apply] searches only these kinds.
func (o *Owner) Set(name string, kinds ...client.Object) *Set {
	owner := *o
	owner.set = name
	return &Set{owner: &owner, name: name, kinds: kinds}
}

// Apply applies the children as [Owner.Apply] does, and then deletes those of the group that aren't in the list. Called without children,
// it deletes the whole group. If a child can't be applied, Apply continues with the others, but deletes nothing.
//
// Apply deletes only objects with both labels of the group and a reference to the owner. If an object has the labels but not the reference,
// Apply deletes nothing and returns an error. After a concurrent edit, it reads the object from the API server and checks it again; after
// three conflicts, it leaves the object for the next call. An object with other owners isn't deleted: it only loses the group's labels and
// the reference to this owner. Dependents of deleted children are deleted in the background.
//
// Newer children are deleted before older ones, and children of the same second in the reverse order of the kinds.
//
// Apply rejects children that belong to a different set, unless [TakeOver] is set. The result is valid even if Apply returns an error.
//
// Apply needs permission to list and delete the kinds of the group, in addition to what [Owner.Apply] needs. It lists the children in the
// owner's namespace or, if the owner is cluster-scoped, in all namespaces.
func (s *Set) Apply(ctx context.Context, children ...client.Object) (SetResult, error) {
	return s.apply(ctx, children, false)
}

// ApplyInOrder is like [Set.Apply], but applies each child only after all earlier ones are [Ready]. Until then, it doesn't change later
// children, and deletes nothing. Call ApplyInOrder again when a child changes; see Owns in package kopf.
//
// ApplyInOrder stores the position of each child in the annotation "kopf-runtime.dev/set-position", and deletes children in the reverse
// order. It doesn't wait until one is deleted before it deletes the next.
func (s *Set) ApplyInOrder(ctx context.Context, children ...client.Object) (SetResult, error) {
	return s.apply(ctx, children, true)
}

func (s *Set) apply(ctx context.Context, objects []client.Object, inOrder bool) (SetResult, error) {
	wanted, existing, err := s.prepare(ctx, objects)
	if err != nil {
		err = rbac.Explain(err)
		return SetResult{err: err}, err
	}
	result := SetResult{}
	for i, c := range wanted {
		setPosition(c, i, inOrder)
		child := SetChild{Name: c.String(), State: Waiting, Result: Result{Operation: controllerutil.OperationResultNone}}
		if !inOrder || result.Ready() {
			child = s.applyChild(ctx, c)
		}
		result.Children = append(result.Children, child)
	}
	complete := !slices.ContainsFunc(result.Children, func(c SetChild) bool { return c.Err != nil || c.State == Waiting })
	if complete {
		obsolete, err := s.obsolete(wanted, existing)
		if err != nil {
			result.err = err
		}
		for _, c := range obsolete {
			result.Pruned = append(result.Pruned, s.prune(ctx, c))
		}
	}
	return result, result.errors()
}

// prepare validates the set and its children, and lists the existing children.
func (s *Set) prepare(ctx context.Context, objects []client.Object) (wanted, existing []child, err error) {
	if s.owner.fieldOwner == "" {
		return nil, nil, fmt.Errorf("children: set %q requires the option FieldOwner: set it to the name of the operator", s.name)
	}
	if err := validation.LabelValue(s.name); err != nil || s.name == "" {
		return nil, nil, fmt.Errorf("children: the name of set %q is not a valid label value: use a short name such as \"storage\"", s.name)
	}
	if err := s.owner.check(); err != nil {
		return nil, nil, err
	}
	kinds, err := s.resolveKinds()
	if err != nil {
		return nil, nil, err
	}
	checkKinds := func(adopted []child) error { return s.checkKinds(kinds, adopted) }
	if wanted, err = s.owner.adopt(objects, checkNames, checkKinds); err != nil {
		return nil, nil, err
	}
	for _, c := range wanted {
		labels := map[string]string{setLabel: s.name, setOwnerLabel: string(s.owner.obj.GetUID())}
		for key, value := range c.GetLabels() {
			if labels[key] == "" {
				labels[key] = value
			}
		}
		c.SetLabels(labels)
	}
	for _, kind := range kinds {
		objects, err := s.list(ctx, kind)
		if err != nil {
			return nil, nil, fmt.Errorf("children: listing the children of kind %s in set %q: %w", kind.gvk.Kind, s.name, err)
		}
		existing = append(existing, objects...)
	}
	return wanted, existing, nil
}

// checkKinds returns an error for each child whose kind doesn't belong to the set.
func (s *Set) checkKinds(kinds, children []child) error {
	var errs []error
	for _, c := range children {
		if !slices.ContainsFunc(kinds, func(kind child) bool { return kind.gvk.GroupKind() == c.gvk.GroupKind() }) {
			errs = append(errs, fmt.Errorf("children: %s is not of a kind of set %q: pass an empty %T to Set", c, s.name, c.Object))
		}
	}
	return errors.Join(errs...)
}

func (s *Set) resolveKinds() (kinds []child, err error) {
	if len(s.kinds) == 0 {
		return nil, fmt.Errorf("children: set %q has no kinds: pass an empty object of each kind, such as &corev1.Service{}", s.name)
	}
	for _, obj := range s.kinds {
		if isNil(obj) {
			return nil, fmt.Errorf("children: set %q has a nil kind: pass an empty object, such as &corev1.Service{}", s.name)
		}
		gvk, err := s.owner.kindOf(obj)
		if err != nil {
			return nil, fmt.Errorf("children: set %q: %w", s.name, err)
		}
		kinds = append(kinds, child{Object: obj, gvk: gvk})
	}
	return kinds, nil
}

// list returns the existing objects of a kind with the labels of the set.
func (s *Set) list(ctx context.Context, kind child) (out []child, err error) {
	list, err := s.newList(kind)
	if err != nil {
		return nil, err
	}
	var reader client.Reader = s.owner.client
	if s.owner.reader != nil {
		reader = s.owner.reader
	}
	labels := client.MatchingLabels{setLabel: s.name, setOwnerLabel: string(s.owner.obj.GetUID())}
	err = reader.List(ctx, list, client.InNamespace(s.owner.obj.GetNamespace()), labels)
	if meta.IsNoMatchError(err) {
		return nil, nil // the API server doesn't serve the kind, so no object exists
	}
	if err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		obj, ok := item.(client.Object)
		if !ok {
			return nil, fmt.Errorf("the list contains %T, which is not a client.Object", item)
		}
		out = append(out, child{Object: obj, gvk: kind.gvk})
	}
	return out, nil
}

// newList returns an empty list that is typed, unstructured or metadata-only like the kind's object, because the cache has a separate
// informer for each of these.
func (s *Set) newList(kind child) (client.ObjectList, error) {
	gvk := kind.gvk.GroupVersion().WithKind(kind.gvk.Kind + "List")
	switch kind.Object.(type) {
	case *unstructured.Unstructured:
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		return list, nil
	case *metav1.PartialObjectMetadata:
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk)
		return list, nil
	}
	obj, err := s.owner.client.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	list, ok := obj.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%T is not a client.ObjectList", obj)
	}
	return list, nil
}

// setPosition stores the position of a child in the list, or removes it if there is no order.
func setPosition(c child, position int, inOrder bool) {
	all := maps.Clone(c.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	if delete(all, positionAnnotation); inOrder {
		all[positionAnnotation] = strconv.Itoa(position)
	}
	c.SetAnnotations(all)
}

// positionOf returns the stored position of a child. Children without one come last.
func positionOf(c child) int {
	position, err := strconv.Atoi(c.GetAnnotations()[positionAnnotation])
	if err != nil {
		return math.MaxInt
	}
	return position
}

// obsolete returns the existing children that aren't wanted, in the order of deletion: later positions first, then newer ones, then later
// kinds.
func (s *Set) obsolete(wanted, existing []child) (out []child, err error) {
	keep := map[string]bool{}
	for _, c := range wanted {
		keep[keyOf(c)] = true
	}
	for _, c := range slices.Backward(existing) {
		if keep[keyOf(c)] {
			continue
		}
		if !hasReference(c, s.owner.obj.GetUID()) {
			err = errors.Join(err, fmt.Errorf("children: %s has the labels of set %q but no reference to the owner, so nothing is deleted: "+
				"remove the label %s from the object, or restore the owner reference", c, s.name, setLabel))
		}
		out = append(out, c)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b child) int {
		return cmp.Or(cmp.Compare(positionOf(b), positionOf(a)), b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time))
	})
	return out, nil
}

func keyOf(c child) string {
	return c.gvk.GroupKind().String() + " " + c.GetNamespace() + "/" + c.GetName()
}

func (s *Set) applyChild(ctx context.Context, c child) SetChild {
	out := SetChild{Name: c.String()}
	var err error
	if out.Result, err = s.owner.applyOne(ctx, c); err == nil {
		out.State, out.Message, err = stateOf(out.Object, c.gvk)
	}
	if err != nil {
		out.fail(err)
		if errors.Is(err, errDeleting) {
			out.State = Deleting
		}
	}
	return out
}

// prune deletes a child, or releases one with other owners. The preconditions protect an object that has changed since it was listed.
func (s *Set) prune(ctx context.Context, c child) SetChild {
	out := SetChild{Name: c.String(), State: Deleting, Result: Result{Object: c.Object, Operation: controllerutil.OperationResultNone}}
	var err error
	for range maxPruneAttempts {
		if c.GetDeletionTimestamp() != nil {
			break
		}
		if others := s.otherReferences(c); len(others) > 0 {
			if err = s.release(ctx, c, others); err == nil {
				out.State, out.Operation, out.Message = Deleted, operationReleased, "other owners keep the object"
				return out
			}
		} else {
			uid, version := c.GetUID(), c.GetResourceVersion()
			err = s.owner.client.Delete(ctx, c.Object, client.PropagationPolicy(metav1.DeletePropagationBackground),
				client.Preconditions{UID: &uid, ResourceVersion: &version})
		}
		if err == nil {
			out.Operation = operationDeleted
			if len(c.GetFinalizers()) == 0 && c.gvk.GroupKind() != (schema.GroupKind{Kind: "Pod"}) {
				out.State = Deleted
			}
			return out
		}
		if !apierrors.IsConflict(err) {
			break
		}
		var live child
		if live, err = s.refresh(ctx, c); err != nil {
			break
		}
		if !s.contains(live) { // another client has removed the object from the set in the meantime
			out.State = Deleted
			return out
		}
		c, out.Object = live, live.Object
	}
	switch {
	case apierrors.IsNotFound(err):
		out.State = Deleted
	case err != nil:
		out.fail(err)
	case len(c.GetFinalizers()) > 0:
		out.Message = "waiting for the finalizers " + strings.Join(c.GetFinalizers(), ", ")
	}
	return out
}

// otherReferences returns a child's references to other owners.
func (s *Set) otherReferences(c child) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(c.GetOwnerReferences()), func(ref metav1.OwnerReference) bool { return ref.UID == s.owner.obj.GetUID() })
}

// release removes the owner reference and the set's labels from a child that has other owners.
func (s *Set) release(ctx context.Context, c child, others []metav1.OwnerReference) error {
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": c.GetUID(), "resourceVersion": c.GetResourceVersion(), "ownerReferences": others, "labels": map[string]any{setLabel: nil, setOwnerLabel: nil},
	}})
	if err != nil {
		return err
	}
	obj := c.newObject()
	obj.SetNamespace(c.GetNamespace())
	obj.SetName(c.GetName())
	var opts []client.PatchOption
	if s.owner.fieldOwner != "" {
		opts = append(opts, client.FieldOwner(s.owner.fieldOwner))
	}
	return s.owner.client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, text), opts...)
}

// refresh reads a child from the API server, see dryRunRead.
func (s *Set) refresh(ctx context.Context, c child) (child, error) {
	live := c.newObject()
	live.SetNamespace(c.GetNamespace())
	live.SetName(c.GetName())
	err := s.owner.client.Patch(ctx, live, client.RawPatch(types.MergePatchType, []byte("{}")), client.DryRunAll)
	return child{Object: live, gvk: c.gvk}, err
}

// contains reports whether an object belongs to the set.
func (s *Set) contains(c child) bool {
	labels := c.GetLabels()
	return labels[setLabel] == s.name && labels[setOwnerLabel] == string(s.owner.obj.GetUID()) && hasReference(c, s.owner.obj.GetUID())
}

// checkClaim returns an error if a live object belongs to a different set, unless the owner of that set no longer owns the object.
func (o *Owner) checkClaim(live client.Object) error {
	labels := live.GetLabels()
	claim, uid := labels[setLabel], types.UID(labels[setOwnerLabel])
	if claim == "" || claim == o.set && uid == o.obj.GetUID() || !hasReference(live, uid) || o.takeOver {
		return nil
	}
	owner := "another owner"
	for _, ref := range live.GetOwnerReferences() {
		if ref.UID == uid {
			owner = fmt.Sprintf("%s %q", ref.Kind, ref.Name)
		}
	}
	return fmt.Errorf("the object belongs to set %q of %s: use another name, remove it from that set, or use TakeOver", claim, owner)
}

// withoutSetLabels returns an owner's labels without those it has because it is itself a child of a set.
func withoutSetLabels(labels map[string]string) map[string]string {
	if labels[setLabel] == "" && labels[setOwnerLabel] == "" {
		return labels
	}
	out := map[string]string{}
	for key, value := range labels {
		if key != setLabel && key != setOwnerLabel {
			out[key] = value
		}
	}
	return out
}
