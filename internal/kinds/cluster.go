package kinds

import (
	"context"
	"net/http"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// ClusterManager is the manager for one of several clusters of a process. Its cache can live longer than the operator. The module contrib/multicluster
// implements it.
type ClusterManager interface {
	manager.Manager
	ClusterName() string
}

// ControllerName returns the name of a controller for metrics and logs. The name begins with the name of the cluster if the process has several
// clusters.
func ControllerName(mgr manager.Manager, name string) string {
	if m, ok := mgr.(ClusterManager); ok {
		return m.ClusterName() + "/" + name
	}
	return name
}

// handlersEndWith returns the cache for the sources of an operator. If the cache can live longer than the operator, stop removes the event handlers of the
// sources. The cache then no longer calls index functions and map functions of the operator.
func handlersEndWith(mgr manager.Manager, objects cache.Cache) (sources cache.Cache, stop func()) {
	if _, ok := mgr.(ClusterManager); !ok {
		return objects, func() {}
	}
	c := &sourceCache{Cache: objects}
	return c, c.removeHandlers
}

// A sourceCache records the event handlers that sources add to its informers.
type sourceCache struct {
	cache.Cache
	mu      sync.Mutex
	added   []addedHandler
	stopped bool
}

type addedHandler struct {
	informer     cache.Informer
	registration toolscache.ResourceEventHandlerRegistration
}

// GetInformer implements [cache.Cache].
func (c *sourceCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, obj, opts...)
	if err != nil {
		return nil, err
	}
	return &sourceInformer{informer, c}, nil
}

func (c *sourceCache) removeHandlers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	for _, one := range c.added {
		_ = one.informer.RemoveEventHandler(one.registration) // the removal fails only if the informer has stopped
	}
	c.added = nil
}

type sourceInformer struct {
	cache.Informer
	of *sourceCache
}

// AddEventHandlerWithOptions implements [cache.Informer]. Sources of controller-runtime use only this method.
func (i *sourceInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.of.mu.Lock()
	defer i.of.mu.Unlock()
	if i.of.stopped {
		return nil, context.Canceled
	}
	registration, err := i.Informer.AddEventHandlerWithOptions(handler, options)
	if err == nil {
		i.of.added = append(i.of.added, addedHandler{i.Informer, registration})
	}
	return registration, err
}

// endingWith returns a copy of an HTTP client for functions of client-go that take no context. A request without a context of its own ends with ctx.
func endingWith(ctx context.Context, c *http.Client) *http.Client {
	ending := *c
	next := ending.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	ending.Transport = endingTransport{ctx, next}
	return &ending
}

type endingTransport struct {
	ctx  context.Context //nolint:containedctx // for requests without a context
	next http.RoundTripper
}

func (t endingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Context().Done() == nil {
		req = req.WithContext(t.ctx)
	}
	return t.next.RoundTrip(req)
}
