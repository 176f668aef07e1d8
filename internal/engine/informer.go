package engine

import (
	"context"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// reasonIndex is the reason of index handlers.
const reasonIndex = "index"

// updateIndexes calls the index handlers for an observed state of an object. It runs on the informer's goroutine, so that the indexes are
// complete before the object is reconciled.
func (e *Engine) updateIndexes(ctx context.Context, observed client.Object) {
	ctx = log.IntoContext(ctx, e.logOf(observed))
	view, input, err := e.observedView(observed, reasonIndex)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to convert the object to JSON")
		return
	}
	ctx = objectstate.ContextWithMemos(ctx, e.states.Memos(observed.GetUID()))
	for id, handler := range e.Indexes.All() {
		if !plan.MatchObject(log.FromContext(ctx), id, &handler.Handler, view, input).Accepts() {
			handler.Remove(observed.GetUID())
			continue
		}
		e.updateIndex(ctx, id, handler, view)
	}
}

// Index adds an object to the indexes, as if the informer had delivered it.
func (e *Engine) Index(ctx context.Context, obj client.Object) { e.updateIndexes(ctx, obj) }

func (e *Engine) updateIndex(ctx context.Context, id string, h *invoke.IndexHandler, view *invoke.View) {
	key := handlerKey{view.Object.GetUID(), id}
	record := e.others.indexFailures.Get(key)
	if record.Failure || record.Delayed.After(now()) {
		return // the index does not contain the object
	}
	if record.Started.IsZero() {
		record.Started = now()
	}
	outcome := invoke.HandlerAttempt{
		Hooks: e.traits.hooks,
		Kind:  e.Name, ID: id, Handler: &h.Handler, View: view, Record: record, QuietSuccess: true,
	}.Run(ctx)
	if outcome.Success {
		e.others.indexFailures.Take(key)
		return
	}
	h.Remove(key.uid)
	e.others.indexFailures.Set(key, record.WithOutcome(outcome, now()))
}

// removeFromIndexes removes an object that has left the cache from the indexes.
func (e *Engine) removeFromIndexes(obj client.Object) {
	for id, handler := range e.Indexes.All() {
		handler.Remove(obj.GetUID())
		e.others.indexFailures.Take(handlerKey{obj.GetUID(), id})
	}
}

// PruneIndexes removes objects that the engine doesn't know from the indexes. It must be called once the engine has observed the first
// list.
func (e *Engine) PruneIndexes() {
	for _, handler := range e.Indexes.All() {
		handler.Prune(e.states.IsKnown)
	}
}

// IndexEvents returns an event handler for an informer that only updates the indexes. It is for processes that don't handle the objects
// yet.
func (e *Engine) IndexEvents(ctx context.Context) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { e.updateIndexes(ctx, obj.(client.Object)) },
		UpdateFunc: func(before, obj any) {
			if replaced := before.(client.Object); replaced.GetUID() != obj.(client.Object).GetUID() {
				e.removeFromIndexes(replaced)
			}
			e.updateIndexes(ctx, obj.(client.Object))
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			e.removeFromIndexes(obj.(client.Object))
		},
	}
}

// observedView returns the view and the filter input for handlers that are called for an observed state of an object.
func (e *Engine) observedView(observed client.Object, reason string) (*invoke.View, match.Input, error) {
	obj := e.wholeCopy(observed)
	content, err := patch.Content(obj)
	if err != nil {
		return nil, match.Input{}, err
	}
	view := &invoke.View{
		Object: obj, Reason: reason, Before: content, After: content, ConditionOptions: e.traits.conditionPlaces, Notify: e.events.NotifierFor(obj),
	}
	return view, match.Input{Object: content}, nil
}

// observer receives the informer's events. It updates the indexes, and stops the work for objects that have left the cache even if all
// workers are busy.
type observer struct{ *Engine }

// OnUpsert implements [objectstate.Observer].
func (w observer) OnUpsert(ctx context.Context, obj client.Object) {
	if len(w.Indexes.IDs()) > 0 {
		w.updateIndexes(ctx, obj)
		// IsKnown comes first, because readmit locks the releases while it delivers the object, and inScope would wait for that lock.
		if !w.states.IsKnown(obj.GetUID()) && !w.inScope(client.ObjectKeyFromObject(obj)) {
			w.removeFromIndexes(obj) // it was released in the meantime
		}
	}
	if len(w.BackgroundHandlers.IDs()) > 0 && obj.GetDeletionTimestamp() != nil {
		w.background.supervisor.StopAll(obj.GetUID(), daemons.ErrDeleted)
	}
}

// OnLeave implements [objectstate.Observer].
func (w observer) OnLeave(obj client.Object, isDeleted bool) {
	w.removeFromIndexes(obj)
	w.endWork(obj, isDeleted)
}

// EventHandler returns the event handler for the kind's informer.
func (e *Engine) EventHandler(predicates ...predicate.Predicate) handler.EventHandler {
	e.queue.hasPredicates.Store(len(predicates) > 0)
	all := e.states.EventHandler(observer{e}, predicates...)
	if e.Scope != nil {
		all = &scopeFilter{e, all}
	}
	if e.Shard != nil {
		all = e.filterByShard(all)
	}
	return &guardedEvents{e, all}
}

// guardedEvents is an event handler that survives panics. A worker then reconciles the object without the effects of the event. It may
// panic, too, but it retries.
type guardedEvents struct {
	engine *Engine
	inner  handler.EventHandler
}

func (g *guardedEvents) call(obj client.Object, fn func()) {
	e := g.engine
	if err := e.guard(func() error { fn(); return nil }); err != nil {
		metrics.HandlerPanics.WithLabelValues(e.Name, "event").Inc()
		e.logOf(obj).Error(err, "Handling a watch event panicked; the object is reconciled nevertheless", "stack", guard.Trace(err))
		e.states.Enqueue(0, client.ObjectKeyFromObject(obj))
	}
}

func (g *guardedEvents) Create(ctx context.Context, ev event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	g.call(ev.Object, func() { g.inner.Create(ctx, ev, q) })
}

func (g *guardedEvents) Update(ctx context.Context, ev event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	g.call(ev.ObjectNew, func() { g.inner.Update(ctx, ev, q) })
}

func (g *guardedEvents) Delete(ctx context.Context, ev event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	g.call(ev.Object, func() { g.inner.Delete(ctx, ev, q) })
}

func (g *guardedEvents) Generic(ctx context.Context, ev event.GenericEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	g.call(ev.Object, func() { g.inner.Generic(ctx, ev, q) })
}
