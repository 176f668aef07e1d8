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

// probation is for how long a watch has to be forbidden to be taken for one that was never allowed: then it is told at
// once, while somebody looks at the start. Later, what is served matters more.
const probation = time.Minute

// watch calls changed for each state of one object that is seen, and when it is gone, until the context ends. It
// asks the API server for that object alone: nothing else is cached, and nothing else has to be allowed. It fails if it is
// not allowed at the beginning; other failures are logged, and it tries again.
func watch(ctx context.Context, mgr manager.Manager, obj client.Object, changed func(client.Object)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began, logger := time.Now(), log.FromContext(ctx)
	forbidden := func(err error) {
		if time.Since(began) < probation {
			cancel(lacking(err))
			return
		}
		logger.Error(rbac.Explain(err), "It is not seen any more what others do", "name", obj.GetName())
	}
	var c cache.Cache
	err := persist(ctx, "It is not seen yet what others do; it will be tried again", func() (err error) {
		c, err = observe(ctx, mgr, obj, changed, forbidden)
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

// observe makes the cache of one object, which is to be started. Once it is, forbidden is told of what is not allowed.
func observe(ctx context.Context, mgr manager.Manager, obj client.Object, changed func(client.Object), forbidden func(error)) (cache.Cache, error) {
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
	tell := func(seen any) {
		if tombstone, ok := seen.(toolscache.DeletedFinalStateUnknown); ok {
			seen = tombstone.Obj
		}
		if obj, ok := seen.(client.Object); ok {
			changed(obj)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    tell,
		UpdateFunc: func(_, seen any) { tell(seen) },
		DeleteFunc: tell,
	})
	return c, err
}

// persist tries something until it succeeds or the context ends: an API server that cannot answer now is no reason to end an
// operator. It fails only if the operator lacks permissions.
func persist(ctx context.Context, message string, try func() error) error {
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		err := try()
		switch {
		case err == nil:
			return nil
		case apierrors.IsForbidden(err):
			return lacking(err)
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
