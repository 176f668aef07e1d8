package children

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// A Result is what has become of one child.
type Result struct {
	Object    client.Object // as the server has it, of the type of the child; nil if that failed, or for a nil child
	Operation controllerutil.OperationResult
}

// Apply adopts children and makes them on the server what they are here: it creates those that are missing, and
// writes the others if anything differs in the fields that are set here. Fields that are not set are left to others.
// Nothing is written for a child that is as it should be, also while a cache does not show the last apply of this process yet.
// Children need names, see [Name].
//
// It is a server-side apply that takes the fields from others, under [FieldOwner]. An annotation on the child,
// "kopf-runtime.dev/applied." with the field owner, is a hash of what was applied. Before a child is created, the server
// itself is asked, by an empty patch as a dry run, whether it is really missing: what the cache does not show is not taken over.
//
// The children themselves are only adopted; the results, in their order, are what the server has. The children are
// independent: if some fail, the others are applied. The errors are joined.
func (o *Owner) Apply(ctx context.Context, children ...client.Object) ([]Result, error) {
	if o.fieldOwner == "" {
		return nil, errors.New("children: Apply needs the option FieldOwner: the name of the operator")
	}
	return o.each(ctx, children, o.applyOne)
}

// Create adopts children and creates those that are missing. What is there is left as it is. Children need names,
// see [Name]. For the results and the errors see [Owner.Apply].
func (o *Owner) Create(ctx context.Context, children ...client.Object) ([]Result, error) {
	return o.each(ctx, children, o.createOne)
}

func (o *Owner) each(ctx context.Context, objects []client.Object, do func(context.Context, child) (Result, error)) ([]Result, error) {
	children, err := o.adopt(objects)
	if err != nil {
		return nil, err
	}
	if err := distinct(children); err != nil {
		return nil, err
	}
	results, failures := make([]Result, len(objects)), []error(nil)
	next := 0
	for i, obj := range objects {
		if isNil(obj) {
			results[i].Operation = controllerutil.OperationResultNone
			continue
		}
		c := children[next]
		next++
		result, err := do(ctx, c)
		if err != nil {
			failures = append(failures, fmt.Errorf("children: %s: %w", c, rbac.Explain(err)))
			result = Result{Operation: controllerutil.OperationResultNone}
		}
		results[i] = result
	}
	return results, errors.Join(failures...)
}

// distinct tells which children have no name, or that of another one.
func distinct(children []child) error {
	var mistakes []error
	seen := map[string]bool{}
	for _, c := range children {
		key := c.gvk.GroupKind().String() + " " + c.GetNamespace() + "/" + c.GetName()
		switch {
		case c.GetName() == "":
			mistakes = append(mistakes, fmt.Errorf("children: %s has no name to be found by: use Name, or the option Strict", c))
		case seen[key]:
			mistakes = append(mistakes, fmt.Errorf("children: %s is there twice: give each child a name of its own", c))
		}
		seen[key] = true
	}
	return errors.Join(mistakes...)
}

func (o *Owner) applyOne(ctx context.Context, c child) (Result, error) {
	intent, err := intentOf(c)
	if err != nil {
		return Result{}, err
	}
	text, err := json.Marshal(intent.Object)
	if err != nil {
		return Result{}, fmt.Errorf("it cannot be written as JSON: %w", err)
	}
	annotations := intent.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[o.appliedKey()] = hash(text)[:16]
	intent.SetAnnotations(annotations)

	live, err := o.read(ctx, c)
	if live == nil && err == nil {
		live, err = o.look(ctx, c) // an apply would take it over, whoever made it
	}
	if err != nil {
		return Result{}, err
	}
	if live != nil {
		if answer := o.pending(intent, live); answer != nil {
			answered, err := like(c.Object, answer)
			return Result{answered, controllerutil.OperationResultNone}, err
		}
		if same, err := o.settled(intent, live); err != nil || same {
			return Result{live, controllerutil.OperationResultNone}, err
		}
	}
	err = o.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(intent), client.FieldOwner(o.fieldOwner), client.ForceOwnership)
	if err != nil {
		return Result{}, err
	}
	o.remember(intent)
	answer, err := like(c.Object, intent)
	result := Result{answer, controllerutil.OperationResultUpdated}
	switch {
	case live == nil:
		result.Operation = controllerutil.OperationResultCreated
	case intent.GetResourceVersion() == live.GetResourceVersion():
		result.Operation = controllerutil.OperationResultNone
	}
	return result, err
}

func (o *Owner) createOne(ctx context.Context, c child) (Result, error) {
	live, err := o.read(ctx, c)
	if err != nil || live != nil {
		return Result{live, controllerutil.OperationResultNone}, err
	}
	created, err := copyOf(c.Object)
	if err != nil {
		return Result{}, err
	}
	var opts []client.CreateOption
	if o.fieldOwner != "" {
		opts = append(opts, client.FieldOwner(o.fieldOwner))
	}
	err = o.client.Create(ctx, created, opts...)
	if apierrors.IsAlreadyExists(err) { // somebody was faster, or the cache is behind
		if live, again := o.read(ctx, c); again != nil || live != nil {
			return Result{live, controllerutil.OperationResultNone}, again
		}
	}
	return Result{created, controllerutil.OperationResultCreated}, err
}

// read returns the child as it is, or nil if it is not there, or not to be seen.
func (o *Owner) read(ctx context.Context, c child) (client.Object, error) {
	var reader client.Reader = o.client
	if o.reader != nil {
		reader = o.reader
	}
	live := c.blank()
	if err := reader.Get(ctx, client.ObjectKeyFromObject(c), live); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return o.accepted(live)
}

// look asks the server itself for a child that was not read, as a cache may be behind, or restricted. Clients that read from a
// cache have only writes to ask with: this one changes nothing, and is not stored.
func (o *Owner) look(ctx context.Context, c child) (client.Object, error) {
	live := c.blank()
	live.SetNamespace(c.GetNamespace())
	live.SetName(c.GetName())
	nothing := client.RawPatch(types.MergePatchType, []byte("{}"))
	if err := o.client.Patch(ctx, live, nothing, client.DryRunAll); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return o.accepted(live)
}

// accepted refuses what is not the owner's.
func (o *Owner) accepted(live client.Object) (client.Object, error) {
	other := metav1.GetControllerOf(live)
	foreign := other != nil && other.UID != o.obj.GetUID()
	switch {
	case live.GetDeletionTimestamp() != nil:
		return nil, errors.New("it is being deleted: try again when it is gone")
	case refers(live, o.obj.GetUID()):
	case foreign && (o.controller || !o.takeOver):
		return nil, &controllerutil.AlreadyOwnedError{Object: live, Owner: *other}
	case !o.takeOver:
		return nil, fmt.Errorf("it exists, and does not belong to %q: remove it, use another name, or use TakeOver", o.obj.GetName())
	}
	return live, nil
}

// blank is an object of the kind of the child.
func (c child) blank() client.Object {
	out := newOf(c.Object)
	out.GetObjectKind().SetGroupVersionKind(c.gvk)
	return out
}

func copyOf(obj client.Object) (client.Object, error) {
	out, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("a copy of %T is no object", obj)
	}
	return out, nil
}

// like returns the content as an object of the same type.
func like(obj client.Object, content *unstructured.Unstructured) (client.Object, error) {
	if _, ok := obj.(*unstructured.Unstructured); ok {
		return content, nil
	}
	out := newOf(obj)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, out); err != nil {
		return nil, fmt.Errorf("it cannot be read as %T: %w", obj, err)
	}
	return out, nil
}
