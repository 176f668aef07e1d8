package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// IsWatched reports whether the informer delivers an object and the engine handles it.
func (e *Engine) IsWatched(obj client.Object) bool {
	return e.inScope(client.ObjectKeyFromObject(obj)) && (e.Selects == nil || e.Selects(obj))
}

// scopeFilter passes on the events of objects that are in scope. Objects that have gone out of scope keep getting theirs until the engine
// has forgotten them.
type scopeFilter struct {
	engine *Engine
	next   handler.EventHandler
}

func (f *scopeFilter) accepts(obj client.Object) bool {
	return f.engine.Scope.InScope(client.ObjectKeyFromObject(obj)) || f.engine.states.IsKnown(obj.GetUID())
}

// Create implements [handler.EventHandler].
func (f *scopeFilter) Create(ctx context.Context, ev event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if f.accepts(ev.Object) {
		f.next.Create(ctx, ev, q)
	}
}

// Update implements [handler.EventHandler].
func (f *scopeFilter) Update(ctx context.Context, ev event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if f.accepts(ev.ObjectOld) || f.accepts(ev.ObjectNew) {
		f.next.Update(ctx, ev, q)
	}
}

// Delete implements [handler.EventHandler].
func (f *scopeFilter) Delete(ctx context.Context, ev event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if f.accepts(ev.Object) {
		f.next.Delete(ctx, ev, q)
	}
}

// Generic implements [handler.EventHandler].
func (f *scopeFilter) Generic(ctx context.Context, ev event.GenericEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	f.next.Generic(ctx, ev, q)
}

// Entered must be called when a namespace's objects come into scope, before the informer delivers them. version is the API server's current
// resource version. The engine may have forgotten its own earlier writes, so it trusts no older state of these objects.
func (e *Engine) Entered(namespace, version string) {
	e.epoch.Enter(namespace, version)
}

// Admitted enqueues a namespace's objects once the scope allows their handlers to be called.
func (e *Engine) Admitted(namespace string) { e.reconcileAll([]string{namespace}) }

// Quiesce stops the work for objects that are no longer in scope, and returns when the engine has forgotten all of them. left selects these
// objects. Running handlers finish, daemons and timers are stopped, and outcomes that aren't stored yet are written. Quiesce returns early
// if the context is cancelled or the engine is closed.
func (e *Engine) Quiesce(ctx context.Context, left func(types.NamespacedName) bool) error {
	for wait := quiescePoll; ; wait = min(2*wait, maxQuiescePoll) {
		keys := e.states.Keys(left)
		if e.queue.ended.Load() || len(keys) == 0 && !slices.ContainsFunc(e.queue.running.Keys(), left) {
			return nil
		}
		for _, key := range keys { // even repeatedly, because an event may have restored a released object
			e.states.Enqueue(triggered, key)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

const (
	quiescePoll    = 50 * time.Millisecond
	maxQuiescePoll = time.Second
)

// Left must be called once the informer of a namespace that is out of scope has stopped.
func (e *Engine) Left(namespace string) {
	e.epoch.Leave(namespace)
}

// ObjectCount returns the number of objects that the engine knows.
func (e *Engine) ObjectCount() int { return e.states.Len() }

// Knows reports whether the engine knows an object that match accepts.
func (e *Engine) Knows(match func(types.NamespacedName) bool) bool {
	return len(e.states.Keys(match)) > 0
}

// release stops the work for a key's object that is no longer in scope, and forgets it. The object keeps its finalizer and its progress, so
// that the next operator can continue. The delete handlers of objects that no longer exist are still called, because no other operator can
// do that.
func (e *Engine) release(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	var vanished time.Duration
	if !e.paused(key.Namespace) { // otherwise, a peer handles the deletion
		vanished = e.handleDeleted(ctx, key)
	}
	obj := e.states.Observed(key)
	back := false // true if the object has returned to the shard
	if obj != nil {
		if wait, err := e.finishWork(ctx, key, obj.GetUID()); wait != finished || err != nil {
			return requeueBefore(reconcile.Result{RequeueAfter: max(wait, 0)}, vanished), err
		}
		if e.Shard != nil {
			if e.deferIfPaused(ctx, key) {
				return requeueBefore(reconcile.Result{}, vanished), nil // the end of the pause enqueues the object
			}
			left, returned, err := e.acknowledgeDrain(ctx, key, obj)
			if !left || err != nil {
				return requeueBefore(reconcile.Result{}, vanished), err
			}
			back = returned
		}
		log.FromContext(ctx).V(1).Info("The object is no longer in scope; its handlers are not called any more")
	}
	e.forgetReleased(key, obj)
	if back {
		e.readmit(ctx, key)
	}
	return requeueBefore(reconcile.Result{}, vanished), nil
}

// forgetReleased drops everything about a key and its object, which is nil if the engine doesn't know one.
func (e *Engine) forgetReleased(key types.NamespacedName, obj client.Object) {
	if obj != nil {
		e.background.supervisor.Forget(obj.GetUID())
		e.removeFromIndexes(obj)
		e.events.Limiter.Forget(obj.GetUID())
		e.forget(obj.GetUID())
	}
	e.others.eventQueues.Take(key)
	e.noteHold(key, "")
	e.noteLoop(key, false)
	e.states.ForgetKey(key)
	e.gone.lastCalls.Take(key)
	e.queue.backingOff.Take(key)
	e.forgetTracked(key)
	e.leaveRollout(key)
}

const finished = time.Duration(-1)

// finishWork stops an object's daemons and timers, and writes outcomes that aren't stored yet. It returns finished, or the time after which
// it must be called again; 0 means that the object will be enqueued.
func (e *Engine) finishWork(ctx context.Context, key types.NamespacedName, uid types.UID) (time.Duration, error) {
	e.background.supervisor.StopAll(uid, daemons.ErrOutOfScope)
	if e.isBusy(uid) {
		return maxQuiescePoll, nil // the object is enqueued earlier if the last run returns
	}
	r, err := e.observe(ctx, key)
	if r == nil || err != nil {
		return finished, err
	}
	defer r.unlock()
	if r.details.Pending == nil {
		return finished, nil
	}
	if e.deferIfPaused(ctx, key) {
		return 0, nil // the end of the pause enqueues the object
	}
	if wait, err := e.retryPendingWrite(ctx, r, r.details.Pending); err != nil || r.details.Pending != nil {
		return max(wait, time.Millisecond), err
	}
	return finished, nil
}

// holdScope holds objects that are out of scope, that are leaving the shard, or for which handlers may not be called yet.
func (e *Engine) holdScope(key types.NamespacedName) Hold {
	switch {
	case e.isLeaving(key):
		return Hold{Reason: HeldByShard, Message: "the object is being released: the sharder moves it to another shard"}
	case !e.inScope(key):
		return Hold{Reason: HeldByScope, Message: fmt.Sprintf("the operator does not handle the namespace %q: see WithNamespaces", key.Namespace)}
	}
	return e.holdWarmup(key)
}

func (e *Engine) holdWarmup(key types.NamespacedName) Hold {
	if e.Scope == nil || !e.inScope(key) || e.Scope.Admits(key) {
		return Hold{}
	}
	return Hold{Reason: HeldByWarmup, Message: "the caches of the namespace have not synced yet"}
}
