package kinds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/decoding"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/leancache"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watchcheck"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
)

// HasOwnCache reports whether the operator needs its own cache. It does if it sets namespaces, a selector or sharding, because the namespaces
// and selectors of the manager's cache are fixed.
func (r *Runtime) HasOwnCache() bool {
	return r.Namespaces != nil || r.WatchSelector != nil || r.SelectsKinds || r.Ring != nil || r.Settings.LeanCaches
}

// sharedCacheOptions returns the user's options for the fixed kinds' cache. With lean caches and without options, that is restricted to the
// namespaces of the manager's cache.
func (r *Runtime) sharedCacheOptions() cache.Options {
	options := r.CacheOptions
	if !r.Settings.LeanCaches || options.DefaultNamespaces != nil || options.ByObject != nil || r.Namespaces != nil {
		return options
	}
	for _, namespace := range watchcheck.CacheNamespaces(r.Manager.GetCache(), schema.GroupVersionKind{}) {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options
}

// CachedNamespaces returns the namespaces to which a kind's cache is restricted, or nil if the cache is cluster-wide. For the zero
// GroupVersionKind, it returns the cache's default namespaces. atRunTime is true for a kind with its own cache.
func (r *Runtime) CachedNamespaces(gvk schema.GroupVersionKind, atRunTime bool) (namespaces []string) {
	if !atRunTime && !r.HasOwnCache() {
		return watchcheck.CacheNamespaces(r.Manager.GetCache(), gvk)
	}
	options := r.sharedCacheOptions()
	if atRunTime {
		options = r.CacheOptions
	}
	configs := options.DefaultNamespaces
	for obj, byObject := range options.ByObject {
		if other, err := apiutil.GVKForObject(obj, r.Manager.GetScheme()); err == nil && other == gvk && byObject.Namespaces != nil {
			configs = byObject.Namespaces
		}
	}
	if _, all := configs[cache.AllNamespaces]; all {
		return nil
	}
	return slices.Sorted(maps.Keys(configs))
}

// StartCache returns the cache of the fixed kinds: the manager's cache, or one that belongs to the operator and runs until stop is called.
// If Warmup has already filled a cache, StartCache returns that one.
func (r *Runtime) StartCache(ctx context.Context, kinds []Kind) (objects cache.Cache, stop func(), err error) {
	if !r.HasOwnCache() {
		return r.Manager.GetCache(), func() {}, nil
	}
	if objects, stop = r.Warmth.take(); objects != nil {
		return objects, stop, nil
	}
	options := r.OwnCacheOptions(ctx)
	if options.DefaultNamespaces == nil {
		options.DefaultNamespaces = r.sharedCacheOptions().DefaultNamespaces
	}
	objects, release, err := r.newCache(ctx, options, engineKinds(kinds)...)
	if err != nil {
		return nil, nil, fmt.Errorf("creating the cache of the operator: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := objects.Start(ctx); err != nil {
			r.Manager.GetLogger().Error(err, "The cache of the operator has failed")
		}
	})
	stopReading := r.Clients.Shared(r.Manager).UseDefault(objects)
	return objects, func() { stopReading(); cancel(); ended.Wait(); release() }, nil
}

// OwnCacheOptions returns the options for the operator's own caches.
func (r *Runtime) OwnCacheOptions(ctx context.Context) cache.Options {
	options := r.CacheOptions
	testhook.ChangeCacheOptions(ctx, &options)
	if options.HTTPClient == nil {
		options.HTTPClient = r.Manager.GetHTTPClient()
	}
	if options.Scheme == nil {
		options.Scheme = r.Manager.GetScheme()
	}
	if options.Mapper == nil {
		options.Mapper = r.Manager.GetRESTMapper()
	}
	if options.NewInformer == nil {
		options.NewInformer = watching.NewDrainedInformer
	}
	guardTransforms(&options, r.Manager.GetLogger())
	if options.DefaultTransform == nil {
		options.DefaultTransform = cache.TransformStripManagedFields()
	}
	return options
}

// newKindCache returns a cache for one kind and its related kinds. The caller must call release after the cache has stopped.
func (r *Runtime) newKindCache(ctx context.Context, kind *Kind) (objects cache.Cache, release func(), err error) {
	options := r.OwnCacheOptions(ctx)
	// Keep only the kinds of this cache, because cache.New fails if the API server doesn't serve a kind in ByObject.
	options.ByObject = maps.Clone(options.ByObject)
	maps.DeleteFunc(options.ByObject, func(obj client.Object, _ cache.ByObject) bool {
		gvk, err := apiutil.GVKForObject(obj, options.Scheme)
		return err != nil || gvk != kind.GVK && !slices.ContainsFunc(kind.Related, func(c Related) bool { return c.GVK == gvk })
	})
	objects, release, err = r.newCache(ctx, options, kind.Kind)
	if err != nil {
		return nil, nil, fmt.Errorf("creating the cache of a kind: %w", err)
	}
	return objects, release, nil
}

// newCache returns a cache of kinds that belongs to the operator. The caller must call release after the cache has stopped.
func (r *Runtime) newCache(ctx context.Context, options cache.Options, kinds ...engine.Kind) (objects cache.Cache, release func(), err error) {
	r.selectObjects(&options, kinds...)
	forms := r.leanForms(kinds)
	options.NewInformer = forms.Informers(options.NewInformer)
	if options, err = decoding.Tolerate(r.Manager.GetConfig(), options, r.Watches.undecodable.own); err != nil {
		return nil, nil, err
	}
	release = func() {}
	if r.Namespaces != nil {
		objects, release, err = r.Namespaces.NewCache(ctx, options)
	} else {
		objects, err = cache.New(r.Manager.GetConfig(), options)
	}
	if err != nil {
		return nil, nil, err
	}
	return forms.Wrap(decoding.Wrap(objects, options.Scheme, r.Watches.undecodable.own)), release, nil
}

// leanForms returns the forms of kinds whose objects are shrunk in caches.
func (r *Runtime) leanForms(kinds []engine.Kind) leancache.Forms {
	forms := leancache.Forms{}
	for _, kind := range kinds {
		kind.CallsUserCode = callsUserCode(&r.Settings, &kind)
		if form := engine.LeanForm(r.Settings, kind); form != nil {
			forms.Add(kind.New(), form)
		}
	}
	return forms
}

// selectObjects adds the selectors of the given kinds to cache options.
func (r *Runtime) selectObjects(options *cache.Options, kinds ...engine.Kind) {
	options.ByObject = maps.Clone(options.ByObject)
	if options.ByObject == nil {
		options.ByObject = map[client.Object]cache.ByObject{}
	}
	options.NewInformer = r.Ring.Informers(options.NewInformer, kinds)
	for _, kind := range kinds {
		selector := r.selectorOf(&kind)
		if selector == nil {
			continue
		}
		obj, byObject := kind.New(), cache.ByObject{}
		for other, present := range options.ByObject {
			if gvk, err := apiutil.GVKForObject(other, options.Scheme); err == nil && gvk == kind.GVK {
				obj, byObject = other, present
			}
		}
		if byObject.Label == nil {
			byObject.Label = options.DefaultLabelSelector
		}
		if byObject.Field == nil {
			byObject.Field = options.DefaultFieldSelector
		}
		byObject.Label, byObject.Field = bothLabels(byObject.Label, selector.LabelSelector), bothFields(byObject.Field, selector.FieldSelector)
		if namespaced, err := apiutil.IsObjectNamespaced(obj, options.Scheme, options.Mapper); err == nil && namespaced {
			byObject.Namespaces = selectInNamespaces(selector, byObject.Namespaces, options.DefaultNamespaces)
		}
		options.ByObject[obj] = byObject
	}
}

// selectorOf returns the selectors for a kind's watch, or nil for all objects.
func (r *Runtime) selectorOf(kind *engine.Kind) *client.ListOptions {
	all := client.ListOptions{LabelSelector: bothLabels(r.WatchSelector, r.Ring.Labels(kind))}
	if kind.Only != nil {
		all.LabelSelector, all.FieldSelector = bothLabels(all.LabelSelector, kind.Only.LabelSelector), kind.Only.FieldSelector
	}
	if all.LabelSelector == nil && all.FieldSelector == nil {
		return nil
	}
	return &all
}

// selects returns a function that reports whether a kind's watch delivers an object.
func (r *Runtime) selects(kind *engine.Kind) func(client.Object) bool {
	selector, of := r.selectorOf(kind), *kind
	return func(obj client.Object) bool {
		return (selector == nil || matches(selector, obj)) && r.Ring.Selects(&of, obj)
	}
}

func matches(selector *client.ListOptions, obj client.Object) bool {
	if selector.LabelSelector != nil && !selector.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	if selector.FieldSelector == nil {
		return true
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return true // the API server has selected it
	}
	values := fields.Set{}
	for _, r := range selector.FieldSelector.Requirements() {
		if value, _, _ := unstructured.NestedFieldNoCopy(content, strings.Split(r.Field, ".")...); value != nil {
			values[r.Field] = fmt.Sprint(value)
		}
	}
	return selector.FieldSelector.Matches(values)
}

// selectInNamespaces adds a selector to the selectors of individual namespaces, because these override the kind's selector.
func selectInNamespaces(selector *client.ListOptions, configs, defaults map[string]cache.Config) map[string]cache.Config {
	if configs == nil {
		configs = defaults
	}
	configs = maps.Clone(configs)
	for namespace, config := range configs {
		if config.LabelSelector != nil {
			config.LabelSelector = bothLabels(config.LabelSelector, selector.LabelSelector)
		}
		if config.FieldSelector != nil {
			config.FieldSelector = bothFields(config.FieldSelector, selector.FieldSelector)
		}
		configs[namespace] = config
	}
	return configs
}

// bothLabels returns a selector of what both select. nil selects all.
func bothLabels(one, other labels.Selector) labels.Selector {
	switch {
	case one == nil:
		return other
	case other == nil:
		return one
	}
	requirements, selectable := one.Requirements()
	if !selectable {
		return one
	}
	return other.DeepCopySelector().Add(requirements...)
}

// bothFields returns a selector of what both select. nil selects all.
func bothFields(one, other fields.Selector) fields.Selector {
	switch {
	case one == nil:
		return other
	case other == nil:
		return one
	}
	return fields.AndSelectors(one, other)
}
