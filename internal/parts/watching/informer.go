package watching

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A namespacedInformer is one kind's informer in all namespaces of a [NamespacedCache]. Its fields are protected by the cache's lock.
type namespacedInformer struct {
	cache         *NamespacedCache
	obj           client.Object
	members       map[string]cache.Informer // by namespace
	registrations []*registration
}

// A registration is an event handler of a namespacedInformer.
type registration struct {
	informer *namespacedInformer
	handler  toolscache.ResourceEventHandler
	options  toolscache.HandlerOptions
	members  map[string]toolscache.ResourceEventHandlerRegistration
}

var (
	_ cache.Informer                              = &namespacedInformer{}
	_ toolscache.ResourceEventHandlerRegistration = &registration{}
)

// addMember adds a namespace's informer with all event handlers.
func (i *namespacedInformer) addMember(ctx context.Context, namespace string, p *member) error {
	one, err := p.GetInformer(ctx, i.obj, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	i.cache.mu.RLock()
	registrations := slices.Clone(i.registrations)
	i.cache.mu.RUnlock()
	added := map[*registration]toolscache.ResourceEventHandlerRegistration{}
	for _, r := range registrations {
		if added[r], err = one.AddEventHandlerWithOptions(r.handler, r.options); err != nil {
			return err
		}
	}
	i.cache.mu.Lock()
	defer i.cache.mu.Unlock()
	i.members[namespace] = one
	for r, handle := range added {
		r.members[namespace] = handle
	}
	return nil
}

func (i *namespacedInformer) removeMember(namespace string) {
	i.cache.mu.Lock()
	defer i.cache.mu.Unlock()
	delete(i.members, namespace)
	for _, r := range i.registrations {
		delete(r.members, namespace)
	}
}

// ByNamespace returns a copy of the informers by namespace.
func (i *namespacedInformer) ByNamespace() map[string]cache.Informer {
	i.cache.mu.RLock()
	defer i.cache.mu.RUnlock()
	return maps.Clone(i.members)
}

// AddEventHandler implements [cache.Informer].
func (i *namespacedInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements [cache.Informer].
func (i *namespacedInformer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions implements [cache.Informer].
func (i *namespacedInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	defer i.cache.change()()
	r := &registration{informer: i, handler: handler, options: options, members: map[string]toolscache.ResourceEventHandlerRegistration{}}
	for namespace, one := range i.ByNamespace() {
		handle, err := one.AddEventHandlerWithOptions(handler, options)
		if err != nil {
			return nil, err
		}
		r.members[namespace] = handle
	}
	i.cache.mu.Lock()
	defer i.cache.mu.Unlock()
	i.registrations = append(i.registrations, r)
	return r, nil
}

// RemoveEventHandler implements [cache.Informer].
func (i *namespacedInformer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok || r.informer != i {
		return errors.New("the event handler belongs to another informer")
	}
	defer i.cache.change()()
	var err error
	informers := i.ByNamespace()
	for namespace, one := range r.members {
		err = errors.Join(err, informers[namespace].RemoveEventHandler(one))
	}
	i.cache.mu.Lock()
	defer i.cache.mu.Unlock()
	i.registrations = slices.DeleteFunc(i.registrations, func(other *registration) bool { return other == r })
	return err
}

// AddIndexers implements [cache.Informer].
func (i *namespacedInformer) AddIndexers(toolscache.Indexers) error {
	return errors.New("the informer has no common store for all namespaces: use IndexField of the cache")
}

// HasSynced implements [cache.Informer].
func (i *namespacedInformer) HasSynced() bool {
	i.cache.mu.RLock()
	defer i.cache.mu.RUnlock()
	return i.hasSynced()
}

func (i *namespacedInformer) hasSynced() bool {
	for _, one := range i.members {
		if !one.HasSynced() && denied(one) == nil {
			return false
		}
	}
	return true
}

// HasSyncedChecker implements [cache.Informer].
func (i *namespacedInformer) HasSyncedChecker() toolscache.DoneChecker {
	return doneChecker{i.cache, fmt.Sprintf("%T in some namespaces", i.obj), i.HasSynced}
}

// IsStopped implements [cache.Informer].
func (i *namespacedInformer) IsStopped() bool {
	i.cache.mu.RLock()
	defer i.cache.mu.RUnlock()
	return i.cache.running != nil && i.cache.running.Err() != nil
}

// HasSynced implements [toolscache.ResourceEventHandlerRegistration].
func (r *registration) HasSynced() bool {
	r.informer.cache.mu.RLock()
	defer r.informer.cache.mu.RUnlock()
	for namespace, one := range r.members {
		if !one.HasSynced() && denied(r.informer.members[namespace]) == nil {
			return false
		}
	}
	return true
}

// HasSyncedChecker implements [toolscache.ResourceEventHandlerRegistration].
func (r *registration) HasSyncedChecker() toolscache.DoneChecker {
	return doneChecker{r.informer.cache, fmt.Sprintf("handler of %T in some namespaces", r.informer.obj), r.HasSynced}
}

// A doneChecker reports once an informer or an event handler has synced.
type doneChecker struct {
	cache  *NamespacedCache
	name   string
	synced func() bool
}

// Name implements [toolscache.DoneChecker].
func (d doneChecker) Name() string { return d.name }

// Done implements [toolscache.DoneChecker].
func (d doneChecker) Done() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		if d.cache.poll(context.Background(), d.synced) {
			close(done)
		}
	}()
	return done
}
