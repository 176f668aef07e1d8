package decoding

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
)

// A listWatch lists and watches an informer's objects, except those that don't decode.
type listWatch struct {
	gvk       schema.GroupVersionKind
	newObject func() any
	mayPanic  bool // whether decoding an event may kill the process
	next      toolscache.ListerWatcherWithContext
	faults    *Faults
	ends      sync.Once // makes sure that forgetAfter acts only once

	mu     sync.Mutex
	faulty map[types.NamespacedName]Object // objects that the informer doesn't have
	listed map[types.NamespacedName]Object // those found so far by the list in progress, in its pages or initial events
}

// list lists a page without the objects that don't decode.
func (l *listWatch) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	l.forgetAfter(ctx)
	if !l.hasFaulty() {
		list, err := l.tryList(ctx, options)
		if !isContentError(ctx, err) {
			if err == nil {
				l.endPage(options, list, nil)
			}
			return list, err
		}
	}
	var found []Object
	ctx = withFilter(ctx, filter{keepItem: func(item []byte) bool {
		obj, ok := l.check(item)
		if !ok {
			found = append(found, obj)
		}
		return ok
	}})
	list, err := l.tryList(ctx, options)
	if err == nil {
		l.endPage(options, list, found)
	}
	return list, err
}

// tryList lists a page. If the Go type panics, it returns an error.
func (l *listWatch) tryList(ctx context.Context, options metav1.ListOptions) (list runtime.Object, err error) {
	err = guard.Catch("decoding "+l.gvk.Kind+" objects", func() error {
		list, err = l.next.ListWithContext(ctx, options)
		return err
	})
	return list, err
}

// isContentError reports whether a request may have failed because of the content of the response.
func isContentError(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	var status apierrors.APIStatus
	_, isConnection := errors.AsType[*url.Error](err)
	return !errors.As(err, &status) && !isConnection
}

// watch watches the objects. If some don't decode, or if the Go type may panic, it filters the stream.
func (l *listWatch) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	l.forgetAfter(ctx)
	if l.mayPanic || l.hasFaulty() {
		initial := options.SendInitialEvents != nil && *options.SendInitialEvents
		if initial {
			l.beginList()
		}
		ctx = withFilter(ctx, filter{onEvent: func(eventType string, object []byte) verdict { return l.onEvent(&initial, eventType, object) }})
	}
	return l.next.WatchWithContext(ctx, options)
}

// onEvent decides about an event of a filtered watch. initial is true until the initial events are over.
func (l *listWatch) onEvent(initial *bool, eventType string, object []byte) verdict {
	switch watch.EventType(eventType) {
	case watch.Added, watch.Modified, watch.Deleted:
	case watch.Bookmark:
		if *initial && endsInitialEvents(object) {
			*initial = false
			l.endList()
		}
		return keep
	default:
		return keep
	}
	obj, ok := l.check(object)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, isFaulty := l.faulty[obj.Key]
	switch {
	case *initial:
		if !ok {
			l.listed[obj.Key] = obj
		}
	case ok:
		if isFaulty {
			l.replace(obj.Key, nil)
		}
	case watch.EventType(eventType) == watch.Added, isFaulty && watch.EventType(eventType) == watch.Modified:
		l.replace(obj.Key, &obj)
	case isFaulty: // deleted
		l.replace(obj.Key, nil)
	default:
		return expire // the informer may have an older state of the object
	}
	if ok {
		return keep
	}
	return drop
}

// replace replaces or removes a faulty object. The caller must hold l.mu.
func (l *listWatch) replace(key types.NamespacedName, obj *Object) {
	l.faulty = maps.Clone(l.faulty)
	if obj == nil {
		delete(l.faulty, key)
	} else {
		if l.faulty == nil {
			l.faulty = map[types.NamespacedName]Object{}
		}
		l.faulty[key] = *obj
	}
	l.faults.set(l, l.faulty)
}

// endPage records the objects of a page that don't decode.
func (l *listWatch) endPage(options metav1.ListOptions, list runtime.Object, found []Object) {
	if options.Continue == "" {
		l.beginList()
	}
	l.mu.Lock()
	for _, obj := range found {
		l.listed[obj.Key] = obj
	}
	l.mu.Unlock()
	if accessor, err := meta.ListAccessor(list); err != nil || accessor.GetContinue() == "" {
		l.endList()
	}
}

func (l *listWatch) beginList() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed = map[types.NamespacedName]Object{}
}

func (l *listWatch) endList() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faulty, l.listed = l.listed, nil
	l.faults.set(l, l.faulty)
}

func (l *listWatch) hasFaulty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.faulty) > 0
}

// forgetAfter clears this informer's faults when the informer stops.
func (l *listWatch) forgetAfter(ctx context.Context) {
	l.ends.Do(func() { context.AfterFunc(ctx, func() { l.faults.set(l, nil) }) })
}

// check returns an object's identity, and whether the object decodes. If it doesn't, the identity includes the fault.
func (l *listWatch) check(data []byte) (obj Object, ok bool) {
	var partial struct {
		Metadata struct {
			Namespace       string    `json:"namespace"`
			Name            string    `json:"name"`
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
	}
	fault := Check(data, l.newObject)
	if err := json.Unmarshal(data, &partial); err != nil {
		fault = newFault("", err)
	}
	m := partial.Metadata
	return Object{
		GVK: l.gvk, Key: types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, UID: m.UID, ResourceVersion: m.ResourceVersion, Fault: fault,
	}, fault == nil
}

// endsInitialEvents reports whether a bookmark marks the end of a watch's initial events.
func endsInitialEvents(bookmark []byte) bool {
	var partial metav1.PartialObjectMetadata
	return json.Unmarshal(bookmark, &partial) == nil && partial.Annotations[metav1.InitialEventsAnnotationKey] == "true"
}
