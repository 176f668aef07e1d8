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

// ClusterManager is the manager for one of the clusters of a process. Its cache can outlive the operator. The module contrib/multicluster
// implements it.
type ClusterManager interface {
	manager.Manager
	ClusterName() string
}

// ControllerName returns a controller's name for metrics and logs. If the process has several clusters, it starts with the cluster's name.
func ControllerName(mgr manager.Manager, name string) string {
	if m, ok := mgr.(ClusterManager); ok {
		return m.ClusterName() + "/" + name
	}
	return name
}

// handlersEndWith returns the cache for an operator's sources. If the cache can outlive the operator, stop removes the sources' event
// handlers. After that, the cache doesn't call the operator's index functions and map functions any more.
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
		_ = one.informer.RemoveEventHandler(one.registration) // this fails only if the informer has stopped
	}
	c.added = nil
}

type sourceInformer struct {
	cache.Informer
	of *sourceCache
}

// AddEventHandlerWithOptions implements [cache.Informer]. It is the only such method that controller-runtime's sources use.
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

// endingWith copies an HTTP client for client-go functions that don't take a context. If a request's context can't be cancelled, ctx
// cancels the request.
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
	ctx  context.Context //nolint:containedctx // for requests whose context can't be cancelled
	next http.RoundTripper
}

func (t endingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Context().Done() == nil {
		req = req.WithContext(t.ctx)
	}
	return t.next.RoundTrip(req)
}
