package objectstate

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Observer is notified of every observed state of an object, and of every object that has left the cache, before the store enqueues the
// object's key. It is not called for resyncs. The informer waits for both methods, so they must return quickly. isDeleted is true if the
// object certainly no longer exists.
type Observer interface {
	OnUpsert(ctx context.Context, obj client.Object)
	OnLeave(obj client.Object, isDeleted bool)
}

type noopObserver struct{}

func (noopObserver) OnUpsert(context.Context, client.Object) {}
func (noopObserver) OnLeave(client.Object, bool)             {}

// EventHandler returns a handler that records an informer's events and enqueues the keys of their objects. Every event is recorded. If all
// predicates accept an event, even a resync, its key is marked as dirty; creations and updates are enqueued then. Deletions, and updates
// that start a deletion or replace the object, are enqueued regardless of the predicates. With [Options.RecordEvents], so is every event
// except a resync, and with [Options.Enqueues], every event of the objects that it accepts. Objects of the first list that [Options.AtRest]
// accepts are not enqueued. observer may be nil.
func (s *Store[W]) EventHandler(observer Observer, predicates ...predicate.Predicate) handler.EventHandler {
	accepts := predicate.And(predicates...)
	if observer == nil {
		observer = noopObserver{}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			accepted := accepts.Create(e)
			s.observe(e.Object, e.IsInInitialList, accepted)
			observer.OnUpsert(ctx, e.Object)
			if e.IsInInitialList {
				s.recordEvent(Event{Object: e.Object})
			} else {
				s.recordEvent(Event{Object: e.Object, Type: eventAdded})
			}
			if e.IsInInitialList && s.options.AtRest != nil && s.options.AtRest(e.Object) {
				return
			}
			if accepted || s.options.RecordEvents || s.mustEnqueue(e.Object) {
				s.enqueue(q, e.Object)
			} else {
				s.markSkipped(e.Object)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			accepted := accepts.Update(e)
			replaced := e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
			if replaced { // with a different uid, the watch has missed a deletion and a creation
				isDeleted := isOlder(e.ObjectOld, e.ObjectNew) // otherwise, a list may have been older than the cache
				s.MarkLeft(LeftObject{s.newestOf(e.ObjectOld), !isDeleted})
				observer.OnLeave(e.ObjectOld, isDeleted)
				s.recordEvent(Event{Object: e.ObjectOld, Type: eventDeleted, Inferred: !isDeleted})
			}
			resynced := !replaced && e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion()
			if resynced {
				s.resync(e.ObjectNew)
				if accepted { // reconcilers rely on it to correct states they cannot watch
					s.MarkRelatedChange(client.ObjectKeyFromObject(e.ObjectNew))
				}
			} else {
				s.observe(e.ObjectNew, false, accepted)
				observer.OnUpsert(ctx, e.ObjectNew)
				s.recordEvent(Event{Object: e.ObjectNew, Type: map[bool]string{true: eventAdded, false: eventModified}[replaced]})
			}
			// Predicates that compare generations or labels don't notice when a deletion starts.
			deleting := e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
			if replaced || deleting || accepted || !resynced && (s.options.RecordEvents || s.mustEnqueue(e.ObjectNew)) {
				s.enqueue(q, e.ObjectNew)
			} else if !resynced {
				s.markSkipped(e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			last := e.Object
			if e.DeleteStateUnknown {
				last = s.newestOf(last)
			}
			s.MarkLeft(LeftObject{last, e.DeleteStateUnknown})
			observer.OnLeave(e.Object, false)
			if s.options.MarkDeletions && accepts.Delete(e) {
				s.MarkRelatedChange(client.ObjectKeyFromObject(last))
			}
			s.recordEvent(Event{Object: e.Object, Type: eventDeleted, Inferred: e.DeleteStateUnknown})
			s.enqueue(q, e.Object) // regardless of the predicates, because the worker must remove the object's state
		},
	}
}

func (s *Store[W]) mustEnqueue(obj client.Object) bool {
	return s.options.Enqueues != nil && s.options.Enqueues(obj)
}

func (s *Store[W]) enqueue(q queue, obj client.Object) {
	key := client.ObjectKeyFromObject(obj)
	s.MarkQueued(key)
	q.Add(reconcile.Request{NamespacedName: key})
}
