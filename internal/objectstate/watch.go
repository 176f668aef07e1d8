package objectstate

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// A Witness learns of every state of every object before anybody is woken for it, on the informer's time.
type Witness interface {
	Sees(ctx context.Context, obj client.Object)
	Loses(obj client.Object)
}

type nobody struct{}

func (nobody) Sees(context.Context, client.Object) {}
func (nobody) Loses(client.Object)                 {}

// EventHandler feeds the inventory from an informer and wakes the workers. Every event is taken
// note of; the predicates decide only whether it wakes anybody. Objects of the listing at the start
// are queued behind everything else.
func (i *Inventory) EventHandler(witness Witness, predicates ...predicate.Predicate) handler.EventHandler {
	wakes := predicate.And(predicates...)
	if witness == nil {
		witness = nobody{}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			i.Observe(e.Object, e.IsInInitialList)
			witness.Sees(ctx, e.Object)
			if e.IsInInitialList {
				i.see(e.Object, "")
			} else {
				i.see(e.Object, EventAdded)
			}
			if wakes.Create(e) || i.wants.Sights {
				i.add(q, e.Object)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			replaced := e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
			if replaced { // the watch has missed a deletion and a creation in between
				witness.Loses(e.ObjectOld)
				i.Bury(i.lastKnown(e.ObjectOld))
				i.see(e.ObjectOld, EventDeleted)
			}
			repeated := !replaced && e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion()
			if repeated { // a cache that resyncs tells what is known
				i.Learn(e.ObjectNew)
			} else {
				i.Observe(e.ObjectNew, false)
				witness.Sees(ctx, e.ObjectNew)
				i.see(e.ObjectNew, map[bool]string{true: EventAdded, false: EventModified}[replaced])
			}
			// To the predicates a deletion that is held up looks like any other change.
			deleted := e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
			if replaced || deleted || wakes.Update(e) || i.wants.Sights && !repeated {
				i.add(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			// Deletions always wake: what is remembered of the object has to go.
			witness.Loses(e.Object)
			last := e.Object
			if e.DeleteStateUnknown {
				last = i.lastKnown(last)
			}
			i.Bury(last)
			i.see(e.Object, EventDeleted)
			i.add(q, e.Object)
		},
	}
}

// Relatives wakes the workers for other objects than the one that an event is about, its owners, say, and
// takes note that something has changed around them.
func (i *Inventory) Relatives(of func(client.Object) []types.NamespacedName, predicates ...predicate.Predicate) handler.EventHandler {
	wakes := predicate.And(predicates...)
	stir := func(q queue, objs ...client.Object) {
		for _, obj := range objs {
			for _, key := range of(obj) {
				i.Stir(key)
				i.Wake(key)
				q.Add(reconcile.Request{NamespacedName: key})
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			if wakes.Create(e) && !e.IsInInitialList { // those they belong to are listed, too
				stir(q, e.Object)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if wakes.Update(e) && e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() {
				stir(q, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			if wakes.Delete(e) {
				stir(q, e.Object)
			}
		},
	}
}

func (i *Inventory) add(q queue, obj client.Object) {
	key := client.ObjectKeyFromObject(obj)
	i.Wake(key)
	q.Add(reconcile.Request{NamespacedName: key})
}
