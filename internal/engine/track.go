package engine

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

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// trackTimeout limits the time until the cache contains the objects of a tracked kind.
const trackTimeout = 10 * time.Second

// tracker records which objects the reconcile handlers have read with Track. It is kept in memory only: after a restart, the operator calls all
// reconcile handlers, and they track their objects again.
type tracker struct {
	mu      sync.Mutex
	readers map[trackedObject][]trackReader
	tracked map[trackReader][]trackedObject
	watches map[trackedKind]*trackedWatch
}

// trackedObject identifies an object of any kind.
type trackedObject struct {
	schema.GroupKind
	types.NamespacedName
}

// trackReader is a reconcile handler of an object.
type trackReader struct {
	key     types.NamespacedName
	handler string
}

// trackedKind identifies an informer: a kind may be cached as a Go type, as unstructured objects, and as metadata.
type trackedKind struct {
	schema.GroupVersionKind
	form reflect.Type
}

type trackedWatch struct {
	started      chan struct{} // closed when the informer has synced, or has failed to
	err          error         // the error of the start
	informer     cache.Informer
	registration toolscache.ResourceEventHandlerRegistration
}

// tracking is the use of Track by one attempt of a reconcile handler.
type tracking struct {
	engine *Engine
	reader trackReader

	mu      sync.Mutex
	objects []trackedObject
}

// newTracking returns the tracking of an attempt, and adds Track to its request.
func (e *Engine) newTracking(r *reconciliation, req *invoke.Request) *tracking {
	t := &tracking{engine: e, reader: trackReader{client.ObjectKeyFromObject(r.before), req.ID}}
	req.Track = t.track
	return t
}

// track reads an object from the cache into obj. Later changes of the object, including its creation, trigger the handler.
func (t *tracking) track(ctx context.Context, obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, t.engine.Client.Scheme())
	if err != nil {
		return fmt.Errorf("tracking an object: %w", err)
	}
	key := client.ObjectKeyFromObject(obj)
	if key.Name == "" {
		return fmt.Errorf("tracking a %s: the object has no name: set its name and namespace", gvk.Kind)
	}
	if err := t.engine.watchTracked(ctx, trackedKind{gvk, reflect.TypeOf(obj)}, obj); err != nil {
		return err
	}
	if key.Namespace != "" {
		if namespaced, err := t.engine.Client.IsObjectNamespaced(obj); err == nil && !namespaced {
			key.Namespace = "" // the cache ignores it
		}
	}
	object := trackedObject{gvk.GroupKind(), key}
	t.mu.Lock()
	t.objects = append(t.objects, object)
	t.mu.Unlock()
	t.engine.tracker.add(t.reader, object) // before the read: no change after it is missed
	return t.engine.Tracked.Get(ctx, key, obj)
}

// end replaces the objects that earlier attempts have tracked. A failed attempt adds its objects, because it may have ended before all calls of Track.
func (t *tracking) end(succeeded bool) {
	if t == nil || !succeeded {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.engine.tracker.replace(t.reader, t.objects)
}

// watchTracked waits until the engine watches the objects of a kind. The first call starts the watch.
func (e *Engine) watchTracked(ctx context.Context, kind trackedKind, obj client.Object) error {
	e.tracker.mu.Lock()
	w, ok := e.tracker.watches[kind]
	if !ok {
		if e.tracker.watches == nil {
			e.tracker.watches = map[trackedKind]*trackedWatch{}
		}
		w = &trackedWatch{started: make(chan struct{})}
		e.tracker.watches[kind] = w
	}
	e.tracker.mu.Unlock()
	if ok {
		select {
		case <-w.started:
			return w.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.informer, w.registration, w.err = e.startWatch(ctx, kind, obj)
	if w.err != nil {
		e.tracker.mu.Lock()
		delete(e.tracker.watches, kind) // the next attempt tries again
		e.tracker.mu.Unlock()
	}
	close(w.started)
	return w.err
}

// startWatch registers an event handler with the informer of a kind.
func (e *Engine) startWatch(ctx context.Context, kind trackedKind, obj client.Object) (cache.Informer, toolscache.ResourceEventHandlerRegistration, error) {
	if e.Tracked == nil {
		return nil, nil, fmt.Errorf("tracking a %s: the engine has no informers", kind.Kind)
	}
	mapping, err := e.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, nil, fmt.Errorf("tracking a %s: %w", kind.Kind, err)
	}
	ctx, cancel := context.WithTimeout(ctx, trackTimeout)
	defer cancel()
	informer, err := e.Tracked.GetInformer(ctx, obj)
	if err != nil {
		rule := rbac.Rule{Group: kind.Group, Resources: []string{mapping.Resource.Resource}, Verbs: []string{"list", "watch"}}
		return nil, nil, rbac.WithMissingRules(fmt.Errorf("tracking a %s: the cache has not listed the kind; if the log has an error of the watch, check the permissions: %w", kind.Kind, err), rule)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if !initial { // the handlers read the listed objects
				e.triggerReaders(kind, obj)
			}
		},
		UpdateFunc: func(before, after any) {
			if before.(client.Object).GetResourceVersion() != after.(client.Object).GetResourceVersion() {
				e.triggerReaders(kind, after)
			}
		},
		DeleteFunc: func(obj any) { e.triggerReaders(kind, obj) },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("tracking a %s: %w", kind.Kind, err)
	}
	return informer, registration, nil
}

// triggerReaders triggers the objects whose handlers have tracked an object.
func (e *Engine) triggerReaders(kind trackedKind, obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	changed, ok := obj.(client.Object)
	if !ok {
		return
	}
	for _, reader := range e.tracker.readersOf(trackedObject{kind.GroupKind(), client.ObjectKeyFromObject(changed)}) {
		e.Trigger(reader.key)
	}
}

// stopTracking removes the event handlers of all tracked kinds.
func (e *Engine) stopTracking() {
	e.tracker.mu.Lock()
	defer e.tracker.mu.Unlock()
	for _, w := range e.tracker.watches {
		select {
		case <-w.started:
		default:
			continue // the operator has ended before the cache has synced
		}
		_ = w.informer.RemoveEventHandler(w.registration) // it fails only if the informer has stopped
	}
	e.tracker.watches = nil
}

func (t *tracker) readersOf(object trackedObject) []trackReader {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.readers[object])
}

func (t *tracker) add(reader trackReader, object trackedObject) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.tracked[reader], object) {
		return
	}
	if t.tracked == nil {
		t.tracked, t.readers = map[trackReader][]trackedObject{}, map[trackedObject][]trackReader{}
	}
	t.tracked[reader] = append(t.tracked[reader], object)
	t.readers[object] = append(t.readers[object], reader)
}

// replace makes the given objects the only ones that a handler of an object tracks.
func (t *tracker) replace(reader trackReader, objects []trackedObject) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var kept []trackedObject
	for _, object := range t.tracked[reader] {
		if slices.Contains(objects, object) {
			kept = append(kept, object)
			continue
		}
		readers := slices.DeleteFunc(t.readers[object], func(one trackReader) bool { return one == reader })
		if t.readers[object] = readers; len(readers) == 0 {
			delete(t.readers, object)
		}
	}
	if len(kept) == 0 {
		delete(t.tracked, reader)
		return
	}
	t.tracked[reader] = kept
}
