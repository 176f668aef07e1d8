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
	observedKey   = "bench.example.com/observed"
	heldFinalizer = "bench.example.com/drop"
)

// careful is the other side: a careful hand-written reconciler. It has the guarantees of the library that matter here:
// it does not repeat steps for a handled spec, also not with a stale cache, and does not write equal values.
type careful struct {
	client.Client
	role
	kind
	written sync.Map // version of the last write by name, until it is in the cache
}

func reconciler(mgr manager.Manager, r role, wrap func(reconcile.Reconciler) reconcile.Reconciler) error {
	k := kinds[r.Kind]
	return ctrl.NewControllerManagedBy(mgr).
		For(k.empty()).
		Named(strings.ToLower(k.name)).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Workers}).
		Complete(wrap(&careful{Client: mgr.GetClient(), role: r, kind: k}))
}

func (c *careful) Reconcile(ctx context.Context, req reconcile.Request) (none reconcile.Result, err error) {
	obj := c.empty()
	if err := c.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			c.written.Delete(req.NamespacedName)
		}
		return none, client.IgnoreNotFound(err)
	}
	if c.stale(req.NamespacedName, obj) {
		return none, nil // the event of our own write follows
	}
	if !obj.GetDeletionTimestamp().IsZero() {
		return none, c.release(ctx, obj)
	}
	if err := c.hold(ctx, obj); err != nil {
		return none, err
	}
	return none, c.handle(ctx, obj)
}

func (c *careful) stale(key types.NamespacedName, obj client.Object) bool {
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

func (c *careful) hold(ctx context.Context, obj v1.Object) error {
	before := obj.DeepCopyObject().(client.Object)
	if !c.Finalizer || !controllerutil.AddFinalizer(obj, heldFinalizer) {
		return nil
	}
	return c.wrote(obj, c.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

func (c *careful) release(ctx context.Context, obj v1.Object) error {
	before := obj.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(obj, heldFinalizer) {
		return nil
	}
	log.FromContext(ctx).Info("Dropped")
	err := c.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}

func (c *careful) handle(ctx context.Context, obj v1.Object) error {
	spec, status := obj.Content()
	hash := observed(spec)
	if obj.GetAnnotations()[observedKey] == hash {
		return nil
	}
	before := obj.DeepCopyObject().(v1.Object)
	for _, s := range steps[:c.Handlers] {
		s.do(spec, status)
	}
	log.FromContext(ctx).Info("Handled", "size", spec.Size)
	if _, was := before.Content(); c.hasStatus && *status != *was {
		if err := c.wrote(obj, c.Status().Patch(ctx, obj, client.MergeFrom(before))); err != nil {
			return err
		}
		before = obj.DeepCopyObject().(v1.Object)
	}
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[observedKey] = hash
	obj.SetAnnotations(annotations)
	return c.wrote(obj, c.Patch(ctx, obj, client.MergeFrom(before)))
}

func (c *careful) wrote(obj client.Object, err error) error {
	if err == nil {
		c.written.Store(client.ObjectKeyFromObject(obj), obj.GetResourceVersion())
	}
	return err
}

// observed returns a hash of a spec.
func observed(spec *v1.Spec) string {
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err) // a spec always has a JSON form
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
