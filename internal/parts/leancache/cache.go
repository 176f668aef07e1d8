package leancache

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
)

// Forms are the forms of the kinds in a cache, by Go type, and for unstructured objects and metadata by kind.
type Forms map[any]*Form

// Add adds a kind. obj is an object of the kind.
func (f Forms) Add(obj client.Object, form *Form) {
	if form != nil {
		f[keyOf(obj)] = form
	}
}

// Of returns the form for an object, or nil.
func (f Forms) Of(obj runtime.Object) *Form { return f[keyOf(obj)] }

func keyOf(obj runtime.Object) any {
	switch obj.(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		return formKey{reflect.TypeOf(obj), obj.GetObjectKind().GroupVersionKind()}
	}
	return reflect.TypeOf(obj)
}

type formKey struct {
	form reflect.Type
	gvk  schema.GroupVersionKind
}

// NewInformer is the type of the function that creates the informers of a cache.
type NewInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// Informers returns a function that creates informers like next. They shrink their objects.
func (f Forms) Informers(next NewInformer) NewInformer {
	if len(f) == 0 {
		return next
	}
	return func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		created := next(lw, obj, resync, indexers)
		if form := f.Of(obj); form != nil {
			return &informer{created, form}
		}
		return created
	}
}

// An informer shrinks its objects after its transformation.
type informer struct {
	toolscache.SharedIndexInformer
	form *Form
}

// SetTransform implements [toolscache.SharedInformer].
func (i *informer) SetTransform(transform toolscache.TransformFunc) error {
	return i.SharedIndexInformer.SetTransform(func(obj any) (any, error) {
		if transform != nil {
			var err error
			if obj, err = transform(obj); err != nil {
				return obj, err
			}
		}
		if one, ok := obj.(client.Object); ok {
			_ = guard.Catch("", func() error { i.form.Shrink(one); return nil }) // a Go type may panic; the object then stays whole
		}
		return obj, nil
	})
}

// Wrap returns a cache whose readers get whole objects.
func (f Forms) Wrap(objects cache.Cache) cache.Cache {
	if len(f) == 0 {
		return objects
	}
	return &wholeCache{objects, f}
}

type wholeCache struct {
	cache.Cache
	forms Forms
}

// Unwrap returns the inner cache.
func (c *wholeCache) Unwrap() cache.Cache { return c.Cache }

// Get implements [client.Reader].
func (c *wholeCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Cache.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	return c.forms.Of(obj).SetWhole(obj)
}

// List implements [client.Reader].
func (c *wholeCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.Cache.List(ctx, list, opts...); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	changed := false
	for i, item := range items {
		obj, ok := item.(client.Object)
		form := c.forms.Of(item)
		if !ok || !form.IsShrunk(obj) {
			continue
		}
		if items[i], _, err = form.Whole(obj, nil); err != nil {
			return err
		}
		changed = true
	}
	if changed { // the items may be pointers to the objects in the cache
		return meta.SetList(list, items)
	}
	return nil
}
