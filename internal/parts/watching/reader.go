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

// A Client reads kinds with their own caches from these caches, and all other kinds with another client. It is safe for concurrent use.
type Client struct {
	client.Client
	scheme *runtime.Scheme
	direct client.Reader // reads declared kinds without a cache from the API server
	mu     sync.RWMutex
	caches map[cacheKey]client.Reader
	others client.Reader // reads kinds without their own caches; if nil, the embedded client does
}

// cacheKey identifies a cache by its kind and whether it contains only metadata.
type cacheKey struct {
	gvk      schema.GroupVersionKind
	metadata bool
}

// NewClient returns a client that reads all kinds with c until caches are registered. Declared kinds without a cache are read with direct.
func NewClient(c client.Client, direct client.Reader, scheme *runtime.Scheme) *Client {
	return &Client{Client: c, direct: direct, scheme: scheme, caches: map[cacheKey]client.Reader{}}
}

// Declare declares that an object's kind can have its own cache. As long as it has none, its objects are read from the API server, because
// the manager's client would start a watch that is never stopped.
func (c *Client) Declare(obj client.Object) {
	if key, ok := c.keyOf(obj); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.caches[key] == nil {
			c.caches[key] = c.direct
		}
	}
}

// UseCache makes the client read objects of obj's kind from a cache until stop is called. Unstructured objects are not affected; the
// manager's client reads them from the API server by default.
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

// UseDefault makes the client read kinds without their own caches from a default cache until stop is called. Unstructured objects are not
// affected.
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

// keyOf returns the key of an object or a list. It returns false for unstructured objects, and for types missing from the scheme.
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
