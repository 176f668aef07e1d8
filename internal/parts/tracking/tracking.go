package tracking

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// startTimeout limits how long the cache may take to list a kind's objects.
const startTimeout = 10 * time.Second

// Tracker records which objects a kind's reconcile handlers have read with Track, and triggers the handlers when these objects change. The
// records exist only in memory, because after a restart all reconcile handlers are called and track their objects again. A Tracker is safe
// for concurrent use.
type Tracker struct {
	client  client.Client
	cache   cache.Cache
	trigger func(types.NamespacedName)

	mu      sync.Mutex
	readers map[object][]Reader
	tracked map[Reader][]object
	watches map[kind]*watch
}

// New returns a tracker. objects is the cache for tracked objects, or nil if handlers can't track. trigger makes an object's reconcile
// handlers due.
func New(c client.Client, objects cache.Cache, trigger func(types.NamespacedName)) *Tracker {
	return &Tracker{client: c, cache: objects, trigger: trigger}
}

// object identifies an object of any kind.
type object struct {
	schema.GroupKind
	types.NamespacedName
}

// Reader is one object's reconcile handler.
type Reader struct {
	Object  types.NamespacedName
	Handler string
}

// kind identifies an informer. It includes the form, because a kind may be cached as a Go type, as unstructured objects and as metadata.
type kind struct {
	schema.GroupVersionKind
	form reflect.Type
}

type watch struct {
	started      chan struct{} // closed when the informer has synced or could not be started
	err          error         // why it could not be started
	informer     cache.Informer
	registration toolscache.ResourceEventHandlerRegistration
}

// Attempt records what one attempt of a reconcile handler tracks.
type Attempt struct {
	tracker *Tracker
	reader  Reader

	mu      sync.Mutex
	objects []object
}

// Begin returns the record for a new attempt.
func (t *Tracker) Begin(reader Reader) *Attempt { return &Attempt{tracker: t, reader: reader} }

// Track reads an object from the cache into obj. The handler is then triggered whenever the object changes, is created or is deleted. If
// the object doesn't exist, Track returns a not-found error but tracks it anyway.
func (a *Attempt) Track(ctx context.Context, obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, a.tracker.client.Scheme())
	if err != nil {
		return fmt.Errorf("tracking an object: %w", err)
	}
	key := client.ObjectKeyFromObject(obj)
	if key.Name == "" {
		return fmt.Errorf("tracking a %s: the object has no name: set its name and namespace", gvk.Kind)
	}
	if err := a.tracker.await(ctx, kind{gvk, reflect.TypeOf(obj)}, obj); err != nil {
		return err
	}
	if key.Namespace != "" {
		if namespaced, err := a.tracker.client.IsObjectNamespaced(obj); err == nil && !namespaced {
			key.Namespace = "" // the cache ignores the namespace
		}
	}
	tracked := object{gvk.GroupKind(), key}
	a.mu.Lock()
	a.objects = append(a.objects, tracked)
	a.mu.Unlock()
	a.tracker.add(a.reader, tracked) // before reading, so that no later change is missed
	return a.tracker.cache.Get(ctx, key, obj)
}

// End ends an attempt. After a successful attempt, the reader tracks only the objects of this attempt. After a failed one, it also keeps
// those of earlier attempts, because the handler may have returned before it reached all its calls to Track. On a nil attempt, End does
// nothing.
func (a *Attempt) End(succeeded bool) {
	if a == nil || !succeeded {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tracker.replace(a.reader, a.objects)
}

// Forget stops tracking all objects for a reader.
func (t *Tracker) Forget(reader Reader) { t.replace(reader, nil) }

// await waits until a kind is watched. The first call starts the watch.
func (t *Tracker) await(ctx context.Context, of kind, obj client.Object) error {
	t.mu.Lock()
	w, ok := t.watches[of]
	if !ok {
		if t.watches == nil {
			t.watches = map[kind]*watch{}
		}
		w = &watch{started: make(chan struct{})}
		t.watches[of] = w
	}
	t.mu.Unlock()
	if ok {
		select {
		case <-w.started:
			return w.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.informer, w.registration, w.err = t.startWatch(ctx, of, obj)
	if w.err != nil {
		t.mu.Lock()
		delete(t.watches, of) // the next attempt tries again
		t.mu.Unlock()
	}
	close(w.started)
	return w.err
}

// startWatch registers an event handler with the informer of a kind.
func (t *Tracker) startWatch(ctx context.Context, of kind, obj client.Object) (cache.Informer, toolscache.ResourceEventHandlerRegistration, error) {
	if t.cache == nil {
		return nil, nil, fmt.Errorf("tracking a %s: there is no cache for tracked objects", of.Kind)
	}
	mapping, err := t.client.RESTMapper().RESTMapping(of.GroupKind(), of.Version)
	if err != nil {
		return nil, nil, fmt.Errorf("tracking a %s: %w", of.Kind, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	informer, err := t.cache.GetInformer(ctx, obj)
	if err != nil {
		rule := rbac.Rule{Group: of.Group, Resources: []string{mapping.Resource.Resource}, Verbs: []string{"list", "watch"}}
		return nil, nil, rbac.WithMissingRules(fmt.Errorf("tracking a %s: the cache could not list the kind; if the log shows a watch error, check the permissions: %w", of.Kind, err), rule)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if !initial { // the handlers read the listed objects anyway
				t.triggerReaders(of, obj)
			}
		},
		UpdateFunc: func(before, after any) {
			if before.(client.Object).GetResourceVersion() != after.(client.Object).GetResourceVersion() {
				t.triggerReaders(of, after)
			}
		},
		DeleteFunc: func(obj any) { t.triggerReaders(of, obj) },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("tracking a %s: %w", of.Kind, err)
	}
	return informer, registration, nil
}

// triggerReaders triggers the objects whose handlers have tracked the given object.
func (t *Tracker) triggerReaders(of kind, obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	changed, ok := obj.(client.Object)
	if !ok {
		return
	}
	for _, reader := range t.readersOf(object{of.GroupKind(), client.ObjectKeyFromObject(changed)}) {
		t.trigger(reader.Object)
	}
}

// Close removes the event handlers for all tracked kinds.
func (t *Tracker) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.watches {
		select {
		case <-w.started:
		default:
			continue // the operator has stopped before the cache synced
		}
		_ = w.informer.RemoveEventHandler(w.registration) // RemoveEventHandler fails only if the informer has stopped
	}
	t.watches = nil
}

func (t *Tracker) readersOf(of object) []Reader {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.readers[of])
}

func (t *Tracker) add(reader Reader, of object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.tracked[reader], of) {
		return
	}
	if t.tracked == nil {
		t.tracked, t.readers = map[Reader][]object{}, map[object][]Reader{}
	}
	t.tracked[reader] = append(t.tracked[reader], of)
	t.readers[of] = append(t.readers[of], reader)
}

// replace makes a reader stop tracking all objects that aren't in the list. It adds none.
func (t *Tracker) replace(reader Reader, objects []object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var kept []object
	for _, one := range t.tracked[reader] {
		if slices.Contains(objects, one) {
			kept = append(kept, one)
			continue
		}
		readers := slices.DeleteFunc(t.readers[one], func(other Reader) bool { return other == reader })
		if t.readers[one] = readers; len(readers) == 0 {
			delete(t.readers, one)
		}
	}
	if len(kept) == 0 {
		delete(t.tracked, reader)
		return
	}
	t.tracked[reader] = kept
}
