package webhooks

import (
	"context"

	"k8s.io/apimachinery/pkg/fields"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// watch calls changed for each state of one object that is seen, and when it is gone, until the context ends. It
// asks the API server for that object alone: nothing else is cached, and nothing else has to be allowed.
func watch(ctx context.Context, mgr manager.Manager, obj client.Object, changed func(client.Object)) error {
	only := fields.OneTermEqualSelector("metadata.name", obj.GetName())
	if namespace := obj.GetNamespace(); namespace != "" {
		only = fields.AndSelectors(only, fields.OneTermEqualSelector("metadata.namespace", namespace))
	}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(),
		Scheme:     clientgoscheme.Scheme,
		Mapper:     mgr.GetRESTMapper(),
		ByObject:   map[client.Object]cache.ByObject{obj: {Field: only}},
	})
	if err != nil {
		return err
	}
	informer, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	tell := func(seen any) {
		if tombstone, ok := seen.(toolscache.DeletedFinalStateUnknown); ok {
			seen = tombstone.Obj
		}
		if obj, ok := seen.(client.Object); ok {
			changed(obj)
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    tell,
		UpdateFunc: func(_, seen any) { tell(seen) },
		DeleteFunc: tell,
	}); err != nil {
		return err
	}
	return c.Start(ctx)
}
