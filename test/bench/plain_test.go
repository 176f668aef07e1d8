package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

const (
	hashAnnotation = "bench.example.com/observed"
	finalizerName  = "bench.example.com/drop"
)

// plainReconciler is a hand-written reconciler that does not use the library. It gives the same guarantees as far as the
// benchmark needs them. It does not repeat steps for a handled spec, even if the cache is stale. It does not write
// unchanged values.
type plainReconciler struct {
	client.Client
	role
	kind
	written sync.Map // resource version of the last write by object name, until the cache contains it
}

func addPlainReconciler(mgr manager.Manager, r role, wrap func(reconcile.Reconciler) reconcile.Reconciler) error {
	k := kinds[r.Kind]
	return ctrl.NewControllerManagedBy(mgr).
		For(k.empty()).
		Named(strings.ToLower(k.name)).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Workers}).
		Complete(wrap(&plainReconciler{Client: mgr.GetClient(), role: r, kind: k}))
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
	return reconcile.Result{}, c.handle(ctx, obj)
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

func (c *plainReconciler) ensureFinalizer(ctx context.Context, obj v1.Object) error {
	before := obj.DeepCopyObject().(client.Object)
	if !c.Finalizer || !controllerutil.AddFinalizer(obj, finalizerName) {
		return nil
	}
	return c.recordWrite(obj, c.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

func (c *plainReconciler) finalize(ctx context.Context, obj v1.Object) error {
	before := obj.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(obj, finalizerName) {
		return nil
	}
	log.FromContext(ctx).Info("Dropped")
	err := c.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}

func (c *plainReconciler) handle(ctx context.Context, obj v1.Object) error {
	spec, status := obj.Content()
	hash := specHash(spec)
	if obj.GetAnnotations()[hashAnnotation] == hash {
		return nil
	}
	before := obj.DeepCopyObject().(v1.Object)
	for _, s := range steps[:c.Handlers] {
		s.do(spec, status)
	}
	log.FromContext(ctx).Info("Handled", "size", spec.Size)
	if _, oldStatus := before.Content(); c.hasStatus && *status != *oldStatus {
		if err := c.recordWrite(obj, c.Status().Patch(ctx, obj, client.MergeFrom(before))); err != nil {
			return err
		}
		before = obj.DeepCopyObject().(v1.Object)
	}
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[hashAnnotation] = hash
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

// specHash returns a hash of the spec.
func specHash(spec *v1.Spec) string {
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err) // a spec can always be encoded
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
