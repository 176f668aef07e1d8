package decoding

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Tolerate returns options for a cache that leaves out objects that don't decode into their Go types, and records them in faults. Call it
// after all other changes of the options.
func Tolerate(config *rest.Config, options cache.Options, faults *Faults) (cache.Options, error) {
	if options.HTTPClient == nil {
		var err error
		if options.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return options, fmt.Errorf("creating the HTTP client of a cache: %w", err)
		}
	}
	filtered := *options.HTTPClient
	if filtered.Transport == nil {
		filtered.Transport = http.DefaultTransport
	}
	filtered.Transport = transport{filtered.Transport}
	options.HTTPClient = &filtered
	newInformer, scheme := options.NewInformer, options.Scheme
	if newInformer == nil {
		newInformer = toolscache.NewSharedIndexInformer
	}
	if scheme == nil {
		scheme = clientgoscheme.Scheme // controller-runtime's default
	}
	options.NewInformer = func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		return newInformer(tolerant(lw, obj, scheme, faults), obj, resync, indexers)
	}
	return options, nil
}

// Constructor returns a function that creates objects of the same Go type as obj. It returns nil for unstructured and metadata-only
// objects, because these always decode.
func Constructor(obj runtime.Object) func() any {
	switch obj.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata:
		return nil
	}
	goType := reflect.TypeOf(obj).Elem()
	return func() any { return reflect.New(goType).Interface() }
}

// tolerant wraps an informer's list and watch if the objects have a Go type.
func tolerant(lw toolscache.ListerWatcher, obj runtime.Object, scheme *runtime.Scheme, faults *Faults) toolscache.ListerWatcher {
	newObject := Constructor(obj)
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if newObject == nil || err != nil {
		return lw
	}
	l := &listWatch{
		gvk: gvk, newObject: newObject, mayPanic: mayPanic(reflect.TypeOf(obj).Elem()), next: toolscache.ToListerWatcherWithContext(lw), faults: faults,
	}
	return &toolscache.ListWatch{ListWithContextFunc: l.list, WatchFuncWithContext: l.watch}
}

// A Cache leaves out objects that don't decode into their Go types.
type Cache struct {
	cache.Cache
	scheme *runtime.Scheme
	faults *Faults
}

// New returns a [Cache] and applies [Tolerate] to its options.
func New(config *rest.Config, options cache.Options) (*Cache, error) {
	faults := NewFaults()
	options, err := Tolerate(config, options, faults)
	if err != nil {
		return nil, err
	}
	objects, err := cache.New(config, options)
	if err != nil {
		return nil, err
	}
	return Wrap(objects, options.Scheme, faults), nil
}

// Wrap returns a [Cache] around a cache that was created with options from [Tolerate].
func Wrap(objects cache.Cache, scheme *runtime.Scheme, faults *Faults) *Cache {
	if scheme == nil {
		scheme = clientgoscheme.Scheme
	}
	return &Cache{objects, scheme, faults}
}

// Faults returns the objects that the cache leaves out.
func (c *Cache) Faults() *Faults { return c.faults }

// Unwrap returns the inner cache.
func (c *Cache) Unwrap() cache.Cache { return c.Cache }

// Get implements [client.Reader]. If an object exists but doesn't decode, the error says why. It isn't NotFound, because then the caller
// would create the object again.
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := c.Cache.Get(ctx, key, obj, opts...)
	if !apierrors.IsNotFound(err) {
		return err
	}
	gvk, kindErr := apiutil.GVKForObject(obj, c.scheme)
	if faulty, found := c.faults.Find(gvk.GroupKind(), key); kindErr == nil && found {
		return fmt.Errorf("the object exists, but does not decode into %T: %w", obj, faulty)
	}
	return err
}
