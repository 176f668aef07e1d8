package inventory

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

// EventHandler feeds the inventory from an informer and wakes the workers. Every event is taken
// note of; the predicates decide only whether it wakes anybody. Objects of the listing at the start
// are queued behind everything else.
func (i *Inventory) EventHandler(predicates ...predicate.Predicate) handler.EventHandler {
	wakes := predicate.And(predicates...)
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			i.Observe(e.Object, e.IsInInitialList)
			if wakes.Create(e) {
				q.Add(requestFor(e.Object))
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				i.Bury(e.ObjectOld) // the watch has missed a deletion and a creation in between
			}
			i.Observe(e.ObjectNew, false)
			// To the predicates a deletion that is held up looks like any other change.
			replaced := e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
			deleted := e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
			if replaced || deleted || wakes.Update(e) {
				q.Add(requestFor(e.ObjectNew))
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			// Deletions always wake: what is remembered of the object has to go.
			i.Bury(e.Object)
			q.Add(requestFor(e.Object))
		},
	}
}

func requestFor(obj client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)}
}
