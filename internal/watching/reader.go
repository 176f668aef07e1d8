package watching

import (
	"context"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// A Client reads kinds that have caches of their own from these caches, and all other kinds with another client. It is safe for concurrent use.
type Client struct {
	client.Client
	scheme *runtime.Scheme
	direct client.Reader // reads declared kinds without a cache from the API server
	mu     sync.RWMutex
	caches map[cacheKey]client.Reader
	others client.Reader // reads kinds without caches of their own; if nil, the embedded client reads these kinds
}

// cacheKey identifies a cache by the kind and by whether it contains only metadata.
type cacheKey struct {
	gvk      schema.GroupVersionKind
	metadata bool
}

// NewClient returns a client that reads all kinds with c, until the caller registers caches. It uses direct for declared kinds that have no cache.
func NewClient(c client.Client, direct client.Reader, scheme *runtime.Scheme) *Client {
	return &Client{Client: c, direct: direct, scheme: scheme, caches: map[cacheKey]client.Reader{}}
}

// Declare declares that the kind of an object can have its own cache. While there is no cache, the client reads objects of this kind from the API server. The
// client of a manager would start a watch that never ends.
func (c *Client) Declare(obj client.Object) {
	if key, ok := c.keyOf(obj); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.caches[key] == nil {
			c.caches[key] = c.direct
		}
	}
}

// UseCache makes the client read objects of the same kind as obj from a cache, until the caller calls stop. It does not change reads of unstructured objects,
// which the client of a manager sends to the API server by default.
func (c *Client) UseCache(obj client.Object, from client.Reader) (stop func()) {
	key, ok := c.keyOf(obj)
	if !ok {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.caches[key]
	c.caches[key] = from
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.caches[key] = before; before == nil {
			delete(c.caches, key)
		}
	}
}

// UseDefault makes the client read kinds without caches of their own from a cache, until the caller calls stop. It does not change reads of unstructured objects.
func (c *Client) UseDefault(from client.Reader) (stop func()) {
	set := func(reader client.Reader) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.others = reader
	}
	set(from)
	return func() { set(nil) }
}

// Get implements [client.Reader].
func (c *Client) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.readerFor(obj).Get(ctx, key, obj, opts...)
}

// List implements [client.Reader].
func (c *Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.readerFor(list).List(ctx, list, opts...)
}

func (c *Client) readerFor(obj runtime.Object) client.Reader {
	if key, ok := c.keyOf(obj); ok {
		c.mu.RLock()
		defer c.mu.RUnlock()
		if reader := c.caches[key]; reader != nil {
			return reader
		}
		if c.others != nil {
			return c.others
		}
	}
	return c.Client
}

// keyOf returns the key of an object or a list. It returns false for unstructured objects and for types that the scheme does not know.
func (c *Client) keyOf(obj runtime.Object) (cacheKey, bool) {
	if _, unstructured := obj.(runtime.Unstructured); unstructured {
		return cacheKey{}, false
	}
	gvk, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return cacheKey{}, false
	}
	if _, isList := obj.(client.ObjectList); isList {
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	switch obj.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return cacheKey{gvk, true}, true
	}
	return cacheKey{gvk, false}, true
}
