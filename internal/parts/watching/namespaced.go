package watching

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// syncPoll is how often to check whether informers have synced.
const syncPoll = 20 * time.Millisecond

// A NamespacedCache caches the objects of some namespaces and all cluster-scoped objects. Unlike with controller-runtime's cache,
// namespaces can be added and removed while it runs.
//
// If the API server denies an informer's list, other informers are not blocked: the cache counts as synced without the denied one.
type NamespacedCache struct {
	config  *rest.Config
	options cache.Options
	cluster cache.Cache // for cluster-scoped objects
	// changing is held while namespaces, informers or event handlers change. It is a channel because a change may wait for the API server.
	changing chan struct{}

	mu        sync.RWMutex // protects the fields below; never held while waiting for the API server
	running   context.Context
	closed    bool
	members   map[string]*member // by namespace
	informers map[informerKey]*namespacedInformer
	indexed   []indexedField
	group     sync.WaitGroup
}

// A member is the cache of one namespace.
type member struct {
	cache.Cache
	removed context.Context // cancelled when the member is removed
	remove  context.CancelFunc
	ended   chan struct{} // closed when the member's cache has stopped
}

// A deniableInformer records the last error with which its list or watch was denied.
type deniableInformer struct {
	toolscache.SharedIndexInformer
	err atomic.Pointer[error]
}

// SetWatchErrorHandlerWithContext implements [toolscache.SharedInformer].
func (i *deniableInformer) SetWatchErrorHandlerWithContext(handle toolscache.WatchErrorHandlerWithContext) error {
	return i.SharedIndexInformer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *toolscache.Reflector, err error) {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			i.err.Store(&err)
		}
		handle(ctx, r, err)
	})
}

// denied returns the error with which an informer's list was denied. It returns nil if the informer has synced or received objects, or if
// no request was denied.
func denied(i cache.Informer) error {
	one, ok := i.(*deniableInformer)
	if !ok || one.HasSynced() {
		return nil
	}
	err := one.err.Load()
	if err == nil || len(one.GetStore().ListKeys()) > 0 { // a handler may receive the first object just before the informer has synced
		return nil
	}
	return *err
}

// informerKey identifies an informer, because a kind may be cached as a Go type, as unstructured objects and as metadata.
type informerKey struct {
	schema.GroupVersionKind
	form reflect.Type
}

// An indexedField holds the arguments of one IndexField call.
type indexedField struct {
	obj     client.Object
	name    string
	extract client.IndexerFunc
}

var _ cache.Cache = &NamespacedCache{}

// NewNamespacedCache returns a cache without namespaces. The options must have a scheme and a mapper. Namespaces in the options are
// ignored.
func NewNamespacedCache(config *rest.Config, options cache.Options) (*NamespacedCache, error) {
	options.DefaultNamespaces = nil
	options.ByObject = maps.Clone(options.ByObject)
	for obj, byObject := range options.ByObject {
		byObject.Namespaces = nil
		options.ByObject[obj] = byObject
	}
	cluster, err := cache.New(config, options)
	if err != nil {
		return nil, err
	}
	return &NamespacedCache{
		config: config, options: options, cluster: cluster, changing: make(chan struct{}, 1), members: map[string]*member{}, informers: map[informerKey]*namespacedInformer{},
	}, nil
}

// Add adds a namespace. It doesn't wait until the namespace's objects are listed, see [NamespacedCache.WaitForNamespace].
func (c *NamespacedCache) Add(ctx context.Context, namespace string) error {
	defer c.change()()
	if c.member(namespace) != nil {
		return nil
	}
	p, err := c.newMember(ctx, namespace)
	if err != nil {
		return fmt.Errorf("caching namespace %q: %w", namespace, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members[namespace] = p
	if c.running != nil {
		c.start(p)
	}
	return nil
}

// newMember returns a namespace's cache with all informers and event handlers, but doesn't start it.
func (c *NamespacedCache) newMember(ctx context.Context, namespace string) (*member, error) {
	p := &member{ended: make(chan struct{})}
	p.removed, p.remove = context.WithCancel(context.Background())
	options, newInformer := c.options, c.options.NewInformer
	if newInformer == nil {
		newInformer = toolscache.NewSharedIndexInformer
	}
	options.NewInformer = func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		return &deniableInformer{SharedIndexInformer: newInformer(lw, obj, resync, indexers)}
	}
	if options.DefaultWatchErrorHandler == nil { // without a default, controller-runtime would not set the informer's handler
		options.DefaultWatchErrorHandler = toolscache.DefaultWatchErrorHandler
	}
	// With this selector, a cache requests only this namespace. With DefaultNamespaces, the cache would wrap each informer, and the wrapper
	// of one that never syncs leaks a goroutine.
	inNamespace := fields.OneTermEqualSelector("metadata.namespace", namespace)
	options.DefaultFieldSelector = bothFields(options.DefaultFieldSelector, inNamespace)
	options.ByObject = maps.Clone(options.ByObject)
	for obj, byObject := range options.ByObject {
		if byObject.Field == nil {
			byObject.Field = c.options.DefaultFieldSelector
		}
		byObject.Field = bothFields(byObject.Field, inNamespace)
		options.ByObject[obj] = byObject
	}
	var err error
	if p.Cache, err = cache.New(c.config, options); err != nil {
		return nil, err
	}
	for _, f := range c.indexed {
		if c.isNamespaced(f.obj) {
			err = errors.Join(err, p.IndexField(ctx, f.obj, f.name, f.extract))
		}
	}
	for _, i := range c.informers {
		err = errors.Join(err, i.addMember(ctx, namespace, p))
	}
	if err != nil {
		for _, i := range c.informers {
			i.removeMember(namespace)
		}
	}
	return p, err
}

func bothFields(one, other fields.Selector) fields.Selector {
	if one == nil {
		return other
	}
	return fields.AndSelectors(one, other)
}

// start starts a member. The caller must hold c.mu.
func (c *NamespacedCache) start(p *member) {
	ctx, stop := context.WithCancel(c.running)
	context.AfterFunc(p.removed, stop)
	c.group.Go(func() {
		defer close(p.ended)
		defer p.remove()
		_ = p.Start(ctx) // Start only fails if it is called twice
	})
}

// Remove removes a namespace. Once it has returned, event handlers are no longer called for the namespace's objects. They don't receive
// deletions.
func (c *NamespacedCache) Remove(namespace string) {
	p, isRunning := c.detach(namespace)
	if p == nil {
		return
	}
	if p.remove(); isRunning {
		<-p.ended // Remove does not hold c.changing here, because an event handler may be waiting for it
	}
}

// detach removes a member from the cache and returns it, or nil if the namespace is not cached.
func (c *NamespacedCache) detach(namespace string) (p *member, isRunning bool) {
	defer c.change()()
	c.mu.Lock()
	p, isRunning = c.members[namespace], c.running != nil
	delete(c.members, namespace)
	c.mu.Unlock()
	for _, i := range c.informers {
		i.removeMember(namespace)
	}
	return p, isRunning
}

// Close makes all WaitForNamespace calls fail. It doesn't stop the cache.
func (c *NamespacedCache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// WaitForNamespace waits until the event handlers have received a namespace's objects. Informers whose lists the API server denies are not
// waited for; their errors are returned as denied. WaitForNamespace fails if the namespace is removed, the cache stops or the context is
// cancelled.
func (c *NamespacedCache) WaitForNamespace(ctx context.Context, namespace string) (denied, err error) {
	for {
		synced, denied, err := c.handlersSynced(namespace)
		if synced || err != nil {
			return denied, err
		}
		select {
		case <-time.After(syncPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *NamespacedCache) handlersSynced(namespace string) (synced bool, reasons, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed || c.members[namespace] == nil || c.running != nil && c.running.Err() != nil {
		return false, nil, fmt.Errorf("namespace %q is no longer cached", namespace)
	}
	for _, i := range c.informers {
		one, ok := i.members[namespace]
		if reason := denied(one); reason != nil || !ok {
			reasons = errors.Join(reasons, reason)
			continue
		}
		if !one.HasSynced() {
			return false, nil, nil
		}
		for _, r := range i.registrations {
			if one, ok := r.members[namespace]; ok && !one.HasSynced() {
				return false, nil, nil
			}
		}
	}
	return true, reasons, nil
}

// change waits until no other change is running, and starts one that lasts until end is called.
func (c *NamespacedCache) change() (end func()) {
	c.changing <- struct{}{}
	return func() { <-c.changing }
}

func (c *NamespacedCache) member(namespace string) *member {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.members[namespace]
}

func (c *NamespacedCache) isNamespaced(obj runtime.Object) bool {
	namespaced, err := apiutil.IsObjectNamespaced(obj, c.options.Scheme, c.options.Mapper)
	return err == nil && namespaced
}

// Start implements [cache.Informers].
func (c *NamespacedCache) Start(ctx context.Context) error {
	c.mu.Lock()
	c.running = ctx
	for _, p := range c.members {
		c.start(p)
	}
	c.mu.Unlock()
	err := c.cluster.Start(ctx)
	c.group.Wait()
	return err
}

// WaitForCacheSync implements [cache.Informers].
func (c *NamespacedCache) WaitForCacheSync(ctx context.Context) bool {
	return c.cluster.WaitForCacheSync(ctx) && c.poll(ctx, func() bool {
		c.mu.RLock()
		defer c.mu.RUnlock()
		for _, i := range c.informers {
			if !i.hasSynced() {
				return false
			}
		}
		return c.running != nil
	})
}

// poll waits until done returns true. It returns false if the context is cancelled or the cache stops first.
func (c *NamespacedCache) poll(ctx context.Context, done func() bool) bool {
	for !done() {
		c.mu.RLock()
		running := c.running
		c.mu.RUnlock()
		if running != nil && running.Err() != nil {
			return false
		}
		select {
		case <-time.After(syncPoll):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// GetInformer implements [cache.Informers].
func (c *NamespacedCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	namespaced, err := apiutil.IsObjectNamespaced(obj, c.options.Scheme, c.options.Mapper)
	if err != nil {
		return nil, err
	}
	if !namespaced {
		return c.cluster.GetInformer(ctx, obj, opts...)
	}
	gvk, err := apiutil.GVKForObject(obj, c.options.Scheme)
	if err != nil {
		return nil, err
	}
	i, err := c.informer(ctx, informerKey{gvk, reflect.TypeOf(obj)}, obj)
	if err != nil {
		return nil, err
	}
	var options cache.InformerGetOptions
	for _, opt := range opts {
		opt(&options)
	}
	c.mu.RLock()
	isRunning := c.running != nil
	c.mu.RUnlock()
	if isRunning && (options.BlockUntilSynced == nil || *options.BlockUntilSynced) && !c.poll(ctx, i.HasSynced) {
		return nil, fmt.Errorf("waiting until the cache of %s has synced: %w", gvk.Kind, cmp.Or(ctx.Err(), errStopped))
	}
	return i, nil
}

// informer returns the informer for a key, which it creates if necessary.
func (c *NamespacedCache) informer(ctx context.Context, key informerKey, obj client.Object) (*namespacedInformer, error) {
	c.mu.RLock()
	i := c.informers[key]
	c.mu.RUnlock()
	if i != nil {
		return i, nil // no need to wait for a change if the informer exists
	}
	defer c.change()()
	c.mu.RLock()
	i, members := c.informers[key], maps.Clone(c.members)
	c.mu.RUnlock()
	if i != nil {
		return i, nil
	}
	i = &namespacedInformer{cache: c, obj: obj, members: map[string]cache.Informer{}}
	for namespace, p := range members {
		if err := i.addMember(ctx, namespace, p); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.informers[key] = i
	return i, nil
}

// GetInformerForKind implements [cache.Informers].
func (c *NamespacedCache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	obj, err := c.options.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return c.GetInformer(ctx, obj.(client.Object), opts...)
}

// RemoveInformer implements [cache.Informers].
func (c *NamespacedCache) RemoveInformer(ctx context.Context, obj client.Object) error {
	if !c.isNamespaced(obj) {
		return c.cluster.RemoveInformer(ctx, obj)
	}
	gvk, err := apiutil.GVKForObject(obj, c.options.Scheme)
	if err != nil {
		return err
	}
	defer c.change()()
	c.mu.Lock()
	delete(c.informers, informerKey{gvk, reflect.TypeOf(obj)})
	members := slices.Collect(maps.Values(c.members))
	c.mu.Unlock()
	for _, p := range members {
		err = errors.Join(err, p.RemoveInformer(ctx, obj))
	}
	return err
}

// IndexField implements [client.FieldIndexer].
func (c *NamespacedCache) IndexField(ctx context.Context, obj client.Object, name string, extract client.IndexerFunc) error {
	if !c.isNamespaced(obj) {
		return c.cluster.IndexField(ctx, obj, name, extract)
	}
	defer c.change()()
	c.mu.Lock()
	c.indexed = append(c.indexed, indexedField{obj, name, extract})
	members := slices.Collect(maps.Values(c.members))
	c.mu.Unlock()
	var err error
	for _, p := range members {
		err = errors.Join(err, p.IndexField(ctx, obj, name, extract))
	}
	return err
}

// Get implements [client.Reader].
func (c *NamespacedCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	namespaced, err := apiutil.IsObjectNamespaced(obj, c.options.Scheme, c.options.Mapper)
	if err != nil {
		return err
	}
	if !namespaced {
		return c.cluster.Get(ctx, key, obj, opts...)
	}
	p := c.member(key.Namespace)
	if p == nil {
		return errNotCached(key.Namespace)
	}
	if reason, err := c.waitToRead(ctx, p, obj); reason != nil || err != nil {
		return errors.Join(reason, err)
	}
	return p.Get(ctx, key, obj, opts...)
}

// waitToRead waits until a member has listed an object's kind. It returns a reason if the API server denies the list, and an error if the
// member is removed or the context is cancelled.
func (c *NamespacedCache) waitToRead(ctx context.Context, p *member, obj client.Object) (reason, err error) {
	i, err := p.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	for !i.HasSynced() {
		if reason := denied(i); reason != nil {
			return reason, nil
		}
		select {
		case <-time.After(syncPoll):
		case <-p.removed.Done():
			return nil, errors.New("the operator no longer handles the namespace")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, nil
}

// itemOf returns an empty object of a list's kind and form.
func (c *NamespacedCache) itemOf(list client.ObjectList) (client.Object, error) {
	gvk, err := apiutil.GVKForObject(list, c.options.Scheme)
	if err != nil {
		return nil, err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	switch list.(type) {
	case runtime.Unstructured:
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(gvk)
		return obj, nil
	case *metav1.PartialObjectMetadataList:
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(gvk)
		return obj, nil
	}
	obj, err := c.options.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return obj.(client.Object), nil
}

// List implements [client.Reader]. Without a namespace, it returns the objects in all cached namespaces, except where the API server denies
// the list.
func (c *NamespacedCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	namespaced, err := apiutil.IsObjectNamespaced(list, c.options.Scheme, c.options.Mapper)
	if err != nil {
		return err
	}
	if !namespaced {
		return c.cluster.List(ctx, list, opts...)
	}
	item, err := c.itemOf(list)
	if err != nil {
		return err
	}
	var options client.ListOptions
	options.ApplyOptions(opts)
	if options.Namespace != "" {
		p := c.member(options.Namespace)
		if p == nil {
			return errNotCached(options.Namespace)
		}
		if reason, err := c.waitToRead(ctx, p, item); reason != nil || err != nil {
			return errors.Join(reason, err)
		}
		return p.List(ctx, list, opts...)
	}
	c.mu.RLock()
	members := maps.Clone(c.members)
	c.mu.RUnlock()
	var all []runtime.Object
	for _, namespace := range slices.Sorted(maps.Keys(members)) {
		if reason, err := c.waitToRead(ctx, members[namespace], item); reason != nil || err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue // the API server denies the list, or the namespace has been removed
		}
		some := list.DeepCopyObject().(client.ObjectList)
		if err := members[namespace].List(ctx, some, opts...); err != nil {
			return err
		}
		items, err := meta.ExtractList(some)
		if err != nil {
			return err
		}
		all = append(all, items...)
	}
	if options.Limit > 0 && int64(len(all)) > options.Limit {
		all = all[:options.Limit]
	}
	return meta.SetList(list, all)
}

var errStopped = errors.New("the cache has stopped")

func errNotCached(namespace string) error {
	if namespace == "" {
		return errors.New("the object is of a namespaced kind and has no namespace: set its namespace")
	}
	return fmt.Errorf("the operator does not watch namespace %q: read its objects with the APIReader of the manager, or add the namespace to WithNamespaces", namespace)
}
