package bench

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// minimumReconciler does the least that an operator with the same guarantees can do: it reads the cache without copying, writes merge
// patches by hand, asks only for the metadata of the results, and logs nothing. Nobody writes operators like this; it shows what the rest
// costs.
type minimumReconciler struct {
	client.Client
	*operator
	gvk     metav1.TypeMeta
	written sync.Map // resource version of the last write by object name, until the cache contains it
}

func addMinimumReconciler(o *operator) error {
	version, kind := v1.GroupVersion.WithKind(o.kind().name).ToAPIVersionAndKind()
	return ctrl.NewControllerManagedBy(o).
		For(o.empty()).
		Named(strings.ToLower(o.kind().name)).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.Workers}).
		Complete(&minimumReconciler{Client: o.GetClient(), operator: o, gvk: metav1.TypeMeta{APIVersion: version, Kind: kind}})
}

func (c *minimumReconciler) Reconcile(ctx context.Context, req reconcile.Request) (result reconcile.Result, err error) {
	obj := c.empty()
	if err := c.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			c.written.Delete(req.NamespacedName)
		}
		return result, client.IgnoreNotFound(err)
	}
	version := obj.GetResourceVersion()
	if last, ok := c.written.Load(req.NamespacedName); ok {
		if order, err := resourceversion.CompareResourceVersion(version, last.(string)); err == nil && order < 0 {
			return result, nil // the event of the own write will trigger another reconcile
		}
		c.written.Delete(req.NamespacedName)
	}
	hasFinalizer := slices.Contains(obj.GetFinalizers(), finalizerName)
	switch {
	case obj.GetDeletionTimestamp() != nil && hasFinalizer:
		return result, client.IgnoreNotFound(c.patch(ctx, req.NamespacedName, false, `{"metadata":{"finalizers":null,"resourceVersion":"`, version, `"}}`))
	case obj.GetDeletionTimestamp() != nil:
		return result, nil
	case c.Finalizer && !hasFinalizer:
		if err := c.patch(ctx, req.NamespacedName, false, `{"metadata":{"finalizers":["`+finalizerName+`"],"resourceVersion":"`, version, `"}}`); err != nil {
			return result, err
		}
	}
	if err := c.handle(ctx, req.NamespacedName, obj); err != nil || c.Interval == 0 {
		return result, err
	}
	return reconcile.Result{RequeueAfter: c.lateness.requeueAfter(req.Name, c.Interval)}, nil
}

func (c *minimumReconciler) handle(ctx context.Context, key types.NamespacedName, obj client.Object) error {
	text, err := json.Marshal(essenceOf(obj))
	if err != nil || obj.GetAnnotations()[essenceAnnotation] == string(text) {
		return err
	}
	var changed client.Object
	if c.Unstructured {
		changed = obj.DeepCopyObject().(client.Object) // the steps change maps in place
	} else {
		spec, status := obj.(v1.Object).Content()
		changed = c.empty()
		newSpec, newStatus := changed.(v1.Object).Content()
		*newSpec, *newStatus = *spec, *status
	}
	for _, s := range steps[:c.Handlers] {
		s.run(changed)
	}
	_, status := content(changed)
	statusText, err := json.Marshal(status)
	if err != nil {
		return err
	}
	annotation := `"metadata":{"annotations":{"` + essenceAnnotation + `":` + strconv.Quote(string(text)) + `}}`
	if !c.kind().hasStatus {
		return c.patch(ctx, key, false, `{"status":`, string(statusText), `,`, annotation, `}`)
	}
	if err := c.patch(ctx, key, true, `{"status":`, string(statusText), `}`); err != nil {
		return err
	}
	return c.patch(ctx, key, false, `{`, annotation, `}`)
}

// patch sends a merge patch, and remembers the resource version of the result.
func (c *minimumReconciler) patch(ctx context.Context, key types.NamespacedName, status bool, parts ...string) error {
	answer := &metav1.PartialObjectMetadata{TypeMeta: c.gvk, ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	raw := client.RawPatch(types.MergePatchType, []byte(strings.Join(parts, "")))
	var err error
	if status {
		err = c.Status().Patch(ctx, answer, raw)
	} else {
		err = c.Patch(ctx, answer, raw)
	}
	if err == nil {
		c.written.Store(key, answer.ResourceVersion)
	}
	return err
}
