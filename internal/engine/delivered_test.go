package engine

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// The cache stores an object before the informer delivers it. If the engine has read its own write from the cache, an older state that is delivered later must
// not be handled.
func TestEngine_IgnoresOlderDeliveredStates(t *testing.T) {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one", UID: "1"}}
	fakeClient := fake.NewClientBuilder().WithObjects(obj).Build()
	key := client.ObjectKeyFromObject(obj)
	kind := Kind{Name: "configmaps", GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), New: func() client.Object { return &corev1.ConfigMap{} }}
	calls := 0
	err := kind.Handlers.Add("create", "create", &invoke.Handler{
		Criteria: match.Criteria{Reasons: []string{string(cause.Create)}},
		Do: func(context.Context, *invoke.Request) error {
			calls++
			return progress.Temporary(context.DeadlineExceeded, time.Hour)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	e := New(Settings{
		Client: fakeClient, Cache: fakeClient, APIReader: fakeClient, Store: progress.Smart(), Baseline: progress.AnnotationBaseline(""),
		Finalizer: "example.com/finalizer", Lifecycle: progress.AllAtOnce, Checkpoint: time.Minute, ConsistencyTimeout: time.Minute,
	}, kind)
	reconcileOnce := func() reconcile.Result {
		t.Helper()
		result, err := e.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if err := fakeClient.Get(t.Context(), key, obj); err != nil {
		t.Fatal(err)
	}
	reconcileOnce() // calls the handler
	reconcileOnce() // reads the written object from the cache
	e.states.Observe(obj, false)
	if result := reconcileOnce(); calls != 1 || result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
		t.Errorf("%d calls, requeued after %s, want one call and a wait for the cache", calls, result.RequeueAfter)
	}
	if err := fakeClient.Get(t.Context(), key, obj); err != nil {
		t.Fatal(err)
	}
	e.states.Observe(obj, false)
	if result := reconcileOnce(); calls != 1 || result.RequeueAfter <= time.Minute {
		t.Errorf("%d calls, requeued after %s, want one call and a wait for the next attempt", calls, result.RequeueAfter)
	}
}

// At the start of an operator, most objects are older than the start. The engine takes them from the cache without a copy.
func TestEngine_TakesOldObjectsFromTheCacheWithoutACopy(t *testing.T) {
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	for name, form := range map[string]struct{ empty, identified func() client.Object }{
		"typed": {func() client.Object { return &corev1.ConfigMap{} }, func() client.Object { return &corev1.ConfigMap{} }},
		"unstructured": {func() client.Object { return &unstructured.Unstructured{} }, func() client.Object {
			return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		}},
	} {
		of := func(version string) client.Object {
			obj := form.identified()
			obj.SetName("one")
			obj.SetResourceVersion(version)
			return obj
		}
		delivered, cached := of("5"), of("9")
		before, key := cached.DeepCopyObject(), client.ObjectKeyFromObject(cached)
		store := &toolscache.FakeCustomStore{
			LastStoreSyncResourceVersionFunc: func() string { return "10" },
			GetByKeyFunc:                     func(string) (any, bool, error) { return cached, true, nil },
		}
		for place, from := range map[string]struct {
			reader client.Reader
			store  toolscache.Store
		}{"the store": {sharingReader{}, store}, "a reader, because the store is unknown": {sharingReader{cached}, nil}} {
			t.Run(name+" from "+place, func(t *testing.T) {
				e := New(Settings{Cache: from.reader, Store: progress.Smart(), Baseline: progress.AnnotationBaseline("")}, Kind{Name: "configmaps", GVK: gvk, New: form.empty})
				e.StartFrom("10", func(string) toolscache.Store { return from.store })
				e.epoch.IsPassed(key.Namespace) // as at the start of a reconcile
				e.states.Observe(delivered, true)
				obj, err := e.observedObject(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if obj.GetResourceVersion() != "9" || obj.GetObjectKind().GroupVersionKind() != gvk {
					t.Errorf("version %s of a %s, want version 9 of the ConfigMap", obj.GetResourceVersion(), obj.GetObjectKind().GroupVersionKind().Kind)
				}
				if d := cmp.Diff(before, runtime.Object(cached)); d != "" {
					t.Errorf("the cached object has changed: (-before +after)\n%s", d)
				}
			})
		}
	}
}

// sharingReader is a cache with one object, or without objects. It fails if the caller lets it copy the object.
type sharingReader struct{ cached client.Object }

func (r sharingReader) Get(_ context.Context, _ client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	options := (&client.GetOptions{}).ApplyOptions(opts)
	if options.UnsafeDisableDeepCopy == nil || !*options.UnsafeDisableDeepCopy {
		return errors.New("the read makes a copy")
	}
	if r.cached == nil {
		return errors.New("the engine has read the object instead of taking it from the store")
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(r.cached).Elem())
	return nil
}

func (sharingReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.ErrUnsupported
}
