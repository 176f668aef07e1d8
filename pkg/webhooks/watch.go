package webhooks

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// startupPeriod is how long after the start a forbidden watch is a fatal error, because the permission was probably never granted. Later,
// watchObject only logs it, and the operator continues to answer reviews.
const startupPeriod = time.Minute

// watchObject calls changed for each event of one object until the context is cancelled. Its requests and its cache cover only this object,
// so the permissions can be limited to it. watchObject returns an error if the watch is forbidden at startup. It logs and retries all other
// failures.
func watchObject(ctx context.Context, mgr manager.Manager, obj client.Object, changed func(client.Object)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began, logger := time.Now(), log.FromContext(ctx)
	forbidden := func(err error) {
		if time.Since(began) < startupPeriod {
			cancel(permissionError(err))
			return
		}
		logger.Error(rbac.Explain(err), "Watch is forbidden; changes made by other clients go unnoticed", "name", obj.GetName())
	}
	var c cache.Cache
	err := retryUntilSuccess(ctx, "Failed to set up the watch", func() (err error) {
		c, err = newObjectCache(ctx, mgr, obj, changed, forbidden)
		return err
	})
	if err != nil || ctx.Err() != nil {
		return err
	}
	err = c.Start(ctx)
	if cause := context.Cause(ctx); apierrors.IsForbidden(cause) {
		return cause
	}
	return err
}

// newObjectCache returns a cache of one object, which the caller must start. The cache calls forbidden when list or watch requests are
// forbidden.
func newObjectCache(ctx context.Context, mgr manager.Manager, obj client.Object, changed func(client.Object), forbidden func(error)) (cache.Cache, error) {
	only := fields.OneTermEqualSelector("metadata.name", obj.GetName())
	if namespace := obj.GetNamespace(); namespace != "" {
		only = fields.AndSelectors(only, fields.OneTermEqualSelector("metadata.namespace", namespace))
	}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(),
		Scheme:     clientgoscheme.Scheme,
		Mapper:     mgr.GetRESTMapper(),
		ByObject:   map[client.Object]cache.ByObject{obj: {Field: only}},
		DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			toolscache.DefaultWatchErrorHandler(ctx, r, err)
			if apierrors.IsForbidden(err) {
				forbidden(err)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	informer, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	notify := func(event any) {
		if tombstone, ok := event.(toolscache.DeletedFinalStateUnknown); ok {
			event = tombstone.Obj
		}
		if obj, ok := event.(client.Object); ok {
			changed(obj)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    notify,
		UpdateFunc: func(_, event any) { notify(event) },
		DeleteFunc: notify,
	})
	return c, err
}

// retryUntilSuccess calls try until it succeeds or the context is cancelled, because a temporary failure of the API server must not stop
// the operator. It returns an error only if permissions are missing.
func retryUntilSuccess(ctx context.Context, message string, try func() error) error {
	for retry := minRetryDelay; ; retry = min(2*retry, maxRetryDelay) {
		err := try()
		switch {
		case err == nil:
			return nil
		case apierrors.IsForbidden(err):
			return permissionError(err)
		case ctx.Err() == nil:
			log.FromContext(ctx).Error(err, message, "retryAfter", retry.String())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retry):
		}
	}
}
