package engine

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// A Shard selects the objects that one of several processes handles. The informers of the kind must deliver only objects with the label.
//
// When an object gets the drain label, the engine ends the work for it, forgets it, and removes both labels. Another process may then handle the object. If an object
// appears in the shard and was handled before, the engine calls its resume handlers.
type Shard struct {
	Label, Name string // the label of the objects of the process, and its value
	Drain       string // the label of objects that the process must release
}

// leaves reports whether the process must not begin any work for an object.
func (s *Shard) leaves(obj client.Object) bool {
	if s == nil {
		return false
	}
	_, drained := obj.GetLabels()[s.Drain]
	return drained || obj.GetLabels()[s.Label] != s.Name
}

// releases are the objects that the engine has released, until the watch shows that they have left the shard. Until then, the cache contains states that
// must not be handled.
type releases struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*released
	next  handler.EventHandler // receives the events of all other objects
}

type released struct {
	uid  types.UID
	done bool          // the labels are removed; false while the request is running
	left bool          // the watch has shown in the meantime that the object has left the shard
	back client.Object // the object, if it has returned to the shard in the meantime
}

// isLeaving reports whether the object of a key is being released, or was released.
func (e *Engine) isLeaving(key types.NamespacedName) bool {
	if e.Shard == nil {
		return false
	}
	if e.releases.isDone(key) {
		return true
	}
	obj := e.states.Observed(key)
	return obj != nil && e.Shard.leaves(obj)
}

func (s *releases) isDone(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byKey[key]
	return one != nil && one.done
}

// begin must be called before the labels of an object are removed, and end afterwards.
func (s *releases) begin(key types.NamespacedName, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = map[types.NamespacedName]*released{}
	}
	s.byKey[key] = &released{uid: uid}
}

// end records whether the labels were removed. returned is the object if the request has assigned it to the shard again. end reports whether the object has left the
// shard, and whether it has returned since; [Engine.readmit] must be called for a returned object. Its events are kept until then.
func (s *releases) end(key types.NamespacedName, removed bool, returned client.Object) (left, back bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byKey[key]
	if one.back == nil && !one.left {
		one.back = returned
	}
	left, back = removed || one.left || one.back != nil, one.back != nil
	switch one.done = left && !back; {
	case !left, one.left && !back:
		delete(s.byKey, key)
	}
	return left, back
}

// takes records an event for a release, and reports whether the event must not be passed to the next event handler. returns is true for the first event of an object that
// has returned to the shard.
func (s *releases) takes(shard *Shard, obj client.Object, deleted bool) (taken, returns bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(obj)
	one := s.byKey[key]
	if one == nil {
		return false, false
	}
	isSame := one.uid == obj.GetUID() // otherwise, the object was re-created
	switch {
	case one.done && isSame && !deleted && shard.leaves(obj):
		return true, false
	case one.done:
		delete(s.byKey, key)
		return isSame && deleted, isSame && !deleted
	case deleted:
		one.left, one.back = true, nil
		return true, false
	case one.left || one.back != nil || !isSame || !shard.leaves(obj):
		one.back = obj
		return true, false
	}
	return false, false // the request may fail, and is then repeated for the newest state
}

// acknowledgeDrain removes the labels of an object whose work has ended. It reports whether the engine must forget the object, and whether the object has
// returned to the shard in the meantime. The request fails if the object has changed, because the sharder may have assigned it to another process.
func (e *Engine) acknowledgeDrain(ctx context.Context, key types.NamespacedName, obj client.Object) (left, back bool, err error) {
	if newest := e.states.Newest(obj.GetUID()); newest != nil {
		obj = newest
	}
	if _, drained := obj.GetLabels()[e.Shard.Drain]; !drained || obj.GetLabels()[e.Shard.Label] != e.Shard.Name {
		return true, false, nil
	}
	if e.ended.Load() {
		return false, false, commit.ErrEnded
	}
	document, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion(), "labels": map[string]any{e.Shard.Label: nil, e.Shard.Drain: nil},
	}})
	if err != nil {
		return false, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, commit.WriteTimeout)
	defer cancel()
	written := e.New()
	written.SetNamespace(key.Namespace)
	written.SetName(key.Name)
	e.releases.begin(key, obj.GetUID())
	err = client.IgnoreNotFound(e.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, document)))
	var returned client.Object
	if err == nil && written.GetUID() == obj.GetUID() && !e.Shard.leaves(written) {
		returned = written // the sharder has assigned it to this shard again, in the same request
	}
	if left, back = e.releases.end(key, err == nil, returned); !left {
		return false, false, err
	}
	if since := e.drainingObjects.Since(key); !since.IsZero() {
		metrics.DrainDuration.WithLabelValues(e.Name).Observe(time.Since(since).Seconds())
	}
	e.drainingObjects.Note(metrics.DrainingObjects, e.Name, key, false)
	log.FromContext(ctx).V(1).Info("The object was released; another shard can handle it")
	return true, back, nil
}

// readmit handles an object that has returned to the shard during its release. It holds the lock of the releases, so that later events of the object are
// handled after the return.
func (e *Engine) readmit(ctx context.Context, key types.NamespacedName) {
	queue := e.states.Queue()
	e.releases.mu.Lock()
	defer e.releases.mu.Unlock()
	one := e.releases.byKey[key]
	delete(e.releases.byKey, key)
	if one == nil || one.back == nil {
		return // the object has left the shard again
	}
	e.releases.next.Create(ctx, event.CreateEvent{Object: one.back, IsInInitialList: e.wasHandled(one.back)}, queue)
	if e.Shard.leaves(one.back) {
		e.drainingObjects.Note(metrics.DrainingObjects, e.Name, key, true)
		e.states.MarkQueued(key)
		queue.Add(reconcile.Request{NamespacedName: key})
	}
}

// countRun counts a run of a daemon or a timer until the returned function is called.
func (e *Engine) countRun(uid types.UID) (ended func()) {
	add := func(n int) {
		e.runs.Update(uid, func(running int, _ bool) (int, bool) { return running + n, running+n > 0 })
	}
	add(1)
	return func() { add(-1) }
}

// isBusy reports whether daemons or timers of an object are running. With a shard, this includes runs that the supervisor has abandoned: another shard must
// not start the same daemon or timer.
func (e *Engine) isBusy(uid types.UID) bool {
	return e.supervisor.Busy(uid) || e.Shard != nil && e.runs.Get(uid) > 0
}

// HasRuns reports whether runs of daemons or timers have not returned, including runs that the supervisor has abandoned.
func (e *Engine) HasRuns() bool { return e.runs.Len() > 0 }

// hasMoved reports whether an event is the deletion of an object that still exists. The object has then left the shard, for example because a user has
// removed its label.
func (e *Engine) hasMoved(ctx context.Context, one *eventInProgress) (bool, error) {
	if e.Shard == nil || !one.IsDeletion() {
		return false, nil
	}
	exists, err := e.exists(ctx, one.Object)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to check whether the object is deleted; its event handlers wait", "retryAfter", e.ConsistencyTimeout.String())
	}
	return exists, err
}

// shardFilter passes the events of the objects of a shard. An object that appears in the shard counts as listed at the start if it was handled before, so
// that its resume handlers are called.
type shardFilter struct {
	engine *Engine
	next   handler.EventHandler
}

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

func (e *Engine) filterByShard(next handler.EventHandler) handler.EventHandler {
	e.releases.next = next
	return &shardFilter{e, next}
}

// Create implements [handler.EventHandler].
func (f *shardFilter) Create(ctx context.Context, ev event.CreateEvent, q requests) {
	e := f.engine
	taken, returns := e.releases.takes(e.Shard, ev.Object, false)
	if taken {
		return
	}
	ev.IsInInitialList = ev.IsInInitialList || returns || e.wasHandled(ev.Object)
	f.next.Create(ctx, ev, q)
	f.drain(ev.Object, q)
}

// wasHandled reports whether an object that appears in the shard may have been handled before.
func (e *Engine) wasHandled(obj client.Object) bool {
	return e.Remote != nil || e.Baseline.Fetch(obj) != nil
}

// Update implements [handler.EventHandler].
func (f *shardFilter) Update(ctx context.Context, ev event.UpdateEvent, q requests) {
	switch taken, returns := f.engine.releases.takes(f.engine.Shard, ev.ObjectNew, false); {
	case taken:
	case returns:
		f.next.Create(ctx, event.CreateEvent{Object: ev.ObjectNew, IsInInitialList: true}, q)
	default:
		f.next.Update(ctx, ev, q)
		f.drain(ev.ObjectNew, q)
	}
}

// Delete implements [handler.EventHandler].
func (f *shardFilter) Delete(ctx context.Context, ev event.DeleteEvent, q requests) {
	if taken, _ := f.engine.releases.takes(f.engine.Shard, ev.Object, true); !taken {
		f.engine.drainingObjects.Note(metrics.DrainingObjects, f.engine.Name, client.ObjectKeyFromObject(ev.Object), false)
		f.next.Delete(ctx, ev, q)
	}
}

// Generic implements [handler.EventHandler].
func (f *shardFilter) Generic(ctx context.Context, ev event.GenericEvent, q requests) {
	f.next.Generic(ctx, ev, q)
}

// drain stops the daemons and timers of an object that must be released, and enqueues it regardless of the predicates.
func (f *shardFilter) drain(obj client.Object, q requests) {
	key, leaves := client.ObjectKeyFromObject(obj), f.engine.Shard.leaves(obj)
	f.engine.drainingObjects.Note(metrics.DrainingObjects, f.engine.Name, key, leaves)
	if leaves {
		f.engine.supervisor.StopAll(obj.GetUID(), daemons.ErrOutOfScope)
		f.engine.states.MarkQueued(key)
		q.Add(reconcile.Request{NamespacedName: key})
	}
}
