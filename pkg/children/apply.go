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

// A Result says what happened to one child.
type Result struct {
	Object    client.Object // stored object, with the Go type of the child; nil after an error and for a nil child
	Operation controllerutil.OperationResult
}

// Apply adopts children, creates missing ones, and updates existing ones if a field that you set differs. It doesn't change other fields. A
// child that is up to date isn't written, even while the cache lags behind this process's last apply. Children need names; [Name] returns
// deterministic ones.
//
// Apply uses server-side apply with [FieldOwner] and forces conflicts. It stores a hash of the applied fields in the annotation
// "kopf-runtime.dev/applied.<field owner>". Before it creates a child, it sends an empty patch as a dry run, because the object may exist
// even if the cache doesn't have it.
//
// Apply doesn't copy the server's state into the given objects. The results contain the stored objects, in the order of the children. If
// one child fails, Apply continues with the others and returns the joined errors.
func (o *Owner) Apply(ctx context.Context, children ...client.Object) ([]Result, error) {
	if o.fieldOwner == "" {
		return nil, errors.New("children: Apply requires the option FieldOwner: set it to the name of the operator")
	}
	return o.each(ctx, children, o.applyOne)
}

// Create adopts children and creates missing ones, but doesn't change existing ones. Children need names. Results and errors are the same
// as for [Owner.Apply].
func (o *Owner) Create(ctx context.Context, children ...client.Object) ([]Result, error) {
	return o.each(ctx, children, o.createOne)
}

func (o *Owner) each(ctx context.Context, objects []client.Object, do func(context.Context, child) (Result, error)) ([]Result, error) {
	children, err := o.adopt(objects, checkNames)
	if err != nil {
		return nil, err
	}
	results, errs := make([]Result, len(objects)), []error(nil)
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
			errs = append(errs, fmt.Errorf("children: %s: %w", c, rbac.Explain(err)))
			result = Result{Operation: controllerutil.OperationResultNone}
		}
		results[i] = result
	}
	return results, errors.Join(errs...)
}

// checkNames returns an error for each child without a name, and for children with the same kind, namespace and name.
func checkNames(children []child) error {
	var errs []error
	seen := map[string]bool{}
	for _, c := range children {
		key := keyOf(c)
		switch {
		case c.GetName() == "":
			errs = append(errs, fmt.Errorf("children: %s has no name: use Name or the option Strict", c))
		case seen[key]:
			errs = append(errs, fmt.Errorf("children: %s occurs twice: use a unique name for each child", c))
		}
		seen[key] = true
	}
	return errors.Join(errs...)
}

func (o *Owner) applyOne(ctx context.Context, c child) (Result, error) {
	intent, err := intentOf(c)
	if err != nil {
		return Result{}, err
	}
	text, err := json.Marshal(intent.Object)
	if err != nil {
		return Result{}, fmt.Errorf("converting the child to JSON: %w", err)
	}
	annotations := intent.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[o.appliedKey()] = hash(text)[:16]
	intent.SetAnnotations(annotations)

	live, err := o.read(ctx, c)
	if live == nil && err == nil {
		live, err = o.dryRunRead(ctx, c) // otherwise the apply could take over another client's object
	}
	if err != nil {
		return Result{}, err
	}
	if live != nil {
		if response := o.lastResponse(intent, live); response != nil {
			converted, err := convertTo(c.Object, response)
			return Result{converted, controllerutil.OperationResultNone}, err
		}
		if same, err := o.isApplied(intent, live); err != nil || same {
			return Result{live, controllerutil.OperationResultNone}, err
		}
	}
	err = o.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(intent), client.FieldOwner(o.fieldOwner), client.ForceOwnership)
	if err != nil {
		return Result{}, err
	}
	o.recordApply(intent)
	response, err := convertTo(c.Object, intent)
	result := Result{response, controllerutil.OperationResultUpdated}
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
	if apierrors.IsAlreadyExists(err) { // another client created it, or the cache is stale
		if live, again := o.read(ctx, c); again != nil || live != nil {
			return Result{live, controllerutil.OperationResultNone}, again
		}
	}
	return Result{created, controllerutil.OperationResultCreated}, err
}

// read returns the live child, or nil if it isn't found.
func (o *Owner) read(ctx context.Context, c child) (client.Object, error) {
	var reader client.Reader = o.client
	if o.reader != nil {
		reader = o.reader
	}
	live := c.newObject()
	if err := reader.Get(ctx, client.ObjectKeyFromObject(c), live); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return o.checkLive(live)
}

// dryRunRead asks the API server for a child, because a cache can be stale or filtered. A cached client only sends writes to the server, so
// we send an empty patch as a dry run.
func (o *Owner) dryRunRead(ctx context.Context, c child) (client.Object, error) {
	live := c.newObject()
	live.SetNamespace(c.GetNamespace())
	live.SetName(c.GetName())
	emptyPatch := client.RawPatch(types.MergePatchType, []byte("{}"))
	if err := o.client.Patch(ctx, live, emptyPatch, client.DryRunAll); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return o.checkLive(live)
}

// checkLive returns an error if the owner must not change the live object.
func (o *Owner) checkLive(live client.Object) (client.Object, error) {
	other := metav1.GetControllerOf(live)
	foreign := other != nil && other.UID != o.obj.GetUID()
	switch {
	case live.GetDeletionTimestamp() != nil:
		return nil, errDeleting
	case hasReference(live, o.obj.GetUID()):
	case foreign && (o.controller || !o.takeOver):
		return nil, &controllerutil.AlreadyOwnedError{Object: live, Owner: *other}
	case !o.takeOver:
		return nil, fmt.Errorf("the object exists and does not belong to %q: delete it, use another name, or use TakeOver", o.obj.GetName())
	}
	if err := o.checkClaim(live); err != nil {
		return nil, err
	}
	return live, nil
}

var errDeleting = errors.New("the object is being deleted: retry after its deletion")

// newObject returns an empty object of the child's kind.
func (c child) newObject() client.Object {
	out := newLike(c.Object)
	out.GetObjectKind().SetGroupVersionKind(c.gvk)
	return out
}

func copyOf(obj client.Object) (client.Object, error) {
	out, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("DeepCopyObject of %T does not return a client.Object", obj)
	}
	return out, nil
}

// convertTo converts the content to the Go type of obj.
func convertTo(obj client.Object, content *unstructured.Unstructured) (client.Object, error) {
	if _, ok := obj.(*unstructured.Unstructured); ok {
		return content, nil
	}
	out := newLike(obj)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, out); err != nil {
		return nil, fmt.Errorf("converting the response to %T: %w", obj, err)
	}
	return out, nil
}
