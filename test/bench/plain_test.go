package bench

import (
	"context"
	"maps"
	"reflect"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

const (
	essenceAnnotation = "bench.example.com/last-handled"
	finalizerName     = "bench.example.com/drop"
)

// plainReconciler is a hand-written reconciler that does not use the library. It gives the same guarantees as far as the
// benchmark needs them. It stores the handled essence, and compares it with the present one. It does not repeat steps
// for a handled essence, even if the cache is stale. It does not write unchanged values.
type plainReconciler struct {
	client.Client
	*operator
	written sync.Map // resource version of the last write by object name, until the cache contains it
}

func addPlainReconciler(o *operator) error {
	return ctrl.NewControllerManagedBy(o).
		For(o.empty()).
		Named(strings.ToLower(o.kind().name)).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.Workers}).
		Complete(&plainReconciler{Client: o.GetClient(), operator: o})
}

func (c *plainReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	obj := c.empty()
	if err := c.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			c.written.Delete(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if c.stale(req.NamespacedName, obj) {
		return reconcile.Result{}, nil // the event of the own write will trigger another reconcile
	}
	if !obj.GetDeletionTimestamp().IsZero() {
		return reconcile.Result{}, c.finalize(ctx, obj)
	}
	if err := c.ensureFinalizer(ctx, obj); err != nil {
		return reconcile.Result{}, err
	}
	if err := c.handle(ctx, obj); err != nil || c.Interval == 0 {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: c.lateness.requeueAfter(obj.GetName(), c.Interval)}, nil
}

// stale reports whether the cached object is older than the last write of this reconciler.
func (c *plainReconciler) stale(key types.NamespacedName, obj client.Object) bool {
	version, ok := c.written.Load(key)
	if !ok {
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), version.(string)); err == nil && order < 0 {
		return true
	}
	c.written.Delete(key)
	return false
}

func (c *plainReconciler) ensureFinalizer(ctx context.Context, obj client.Object) error {
	before := obj.DeepCopyObject().(client.Object)
	if !c.Finalizer || !controllerutil.AddFinalizer(obj, finalizerName) {
		return nil
	}
	return c.recordWrite(obj, c.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

func (c *plainReconciler) finalize(ctx context.Context, obj client.Object) error {
	before := obj.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(obj, finalizerName) {
		return nil
	}
	log.FromContext(ctx).Info("Dropped")
	err := c.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}

func (c *plainReconciler) handle(ctx context.Context, obj client.Object) error {
	present := essenceOf(obj)
	text, err := json.Marshal(present)
	if err != nil {
		return err
	}
	stored := obj.GetAnnotations()[essenceAnnotation]
	if stored == string(text) {
		return nil
	}
	old := essence{}
	if !c.Unstructured {
		old.Spec = &v1.Spec{}
	}
	if stored != "" {
		if err := json.Unmarshal([]byte(stored), &old); err != nil {
			return err
		}
	}
	before := obj.DeepCopyObject().(client.Object)
	for _, s := range steps[:c.Handlers] {
		s.run(obj)
	}
	log.FromContext(ctx).Info("Handled", "specChanged", !reflect.DeepEqual(old.Spec, present.Spec))
	_, statusBefore := content(before)
	if _, status := content(obj); c.kind().hasStatus && !reflect.DeepEqual(status, statusBefore) {
		if err := c.recordWrite(obj, c.Status().Patch(ctx, obj, client.MergeFrom(before))); err != nil {
			return err
		}
		before = obj.DeepCopyObject().(client.Object)
	}
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[essenceAnnotation] = string(text)
	obj.SetAnnotations(annotations)
	return c.recordWrite(obj, c.Patch(ctx, obj, client.MergeFrom(before)))
}

// recordWrite stores the resource version of a successful write and returns err.
func (c *plainReconciler) recordWrite(obj client.Object, err error) error {
	if err == nil {
		c.written.Store(client.ObjectKeyFromObject(obj), obj.GetResourceVersion())
	}
	return err
}

// essence is the part of an object whose changes must be handled. It has the format of the library.
type essence struct {
	Metadata struct {
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec any `json:"spec"`
}

func essenceOf(obj client.Object) (e essence) {
	e.Metadata.Labels, e.Metadata.Annotations = obj.GetLabels(), maps.Clone(obj.GetAnnotations())
	delete(e.Metadata.Annotations, essenceAnnotation)
	e.Spec, _ = content(obj)
	return e
}

// content returns the spec and the status of a typed or unstructured object.
func content(obj client.Object) (spec, status any) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object["spec"], u.Object["status"]
	}
	return obj.(v1.Object).Content()
}
