package engine

import (
	"context"
	"errors"
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
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// acknowledgeDrain removes the shard's labels from an object whose work is done. It reports whether the engine must forget the object, and
// whether the object has returned to the shard in the meantime. The request fails if the object has changed, because the sharder may have
// assigned it to a different process.
func (e *Engine) acknowledgeDrain(ctx context.Context, key types.NamespacedName, obj client.Object) (left, back bool, err error) {
	if newest := e.states.Newest(obj.GetUID()); newest != nil {
		obj = newest
	}
	if _, drained := obj.GetLabels()[e.Shard.Drain]; !drained || obj.GetLabels()[e.Shard.Label] != e.Shard.Name {
		return true, false, nil
	}
	if e.sharding.releases.IsDone(key) { // see shardFilter.passed
		return true, false, nil
	}
	if e.queue.ended.Load() {
		return false, false, commit.ErrEnded
	}
	ctx, cancel := context.WithTimeout(ctx, commit.WriteTimeout)
	defer cancel()
	labels, suspensions := map[string]any{e.Shard.Label: nil, e.Shard.Drain: nil}, e.committer.SuspensionCount()
	change := &patch.Change{Before: obj, FrameworkPatch: patch.At([]string{"metadata", "labels"}, labels), Exact: true}
	e.sharding.releases.Begin(key, obj.GetUID())
	written, err := e.committer.Write(ctx, change, &suspensions)
	if errors.Is(err, patch.ErrGone) {
		err = nil
	}
	var returned client.Object
	if written != nil && !e.Shard.Leaves(written) {
		returned = written // the sharder has assigned it to this shard again, in the same request
	}
	if left, back = e.sharding.releases.End(key, err == nil, returned); !left {
		return false, false, err
	}
	if since := e.sharding.draining.Since(key); !since.IsZero() {
		metrics.DrainDuration.WithLabelValues(e.Name).Observe(time.Since(since).Seconds())
	}
	e.sharding.draining.Note(metrics.DrainingObjects.WithLabelValues(e.Name), key, false)
	log.FromContext(ctx).V(1).Info("The object was released; another shard can handle it")
	return true, back, nil
}

// readmit handles an object that has returned to the shard while it was being released.
func (e *Engine) readmit(ctx context.Context, key types.NamespacedName) {
	queue := e.states.Queue()
	e.sharding.releases.Readmit(key, func(back client.Object) {
		e.sharding.events.Create(ctx, event.CreateEvent{Object: back, IsInInitialList: e.wasHandled(back)}, queue)
		if e.Shard.Leaves(back) {
			e.sharding.draining.Note(metrics.DrainingObjects.WithLabelValues(e.Name), key, true)
			e.states.MarkQueued(key)
			queue.Add(reconcile.Request{NamespacedName: key})
		}
	})
}

// isBusy reports whether an object's daemons or timers are running. With a shard, even runs that the supervisor has abandoned count,
// because a different shard must not start the same daemon or timer.
func (e *Engine) isBusy(uid types.UID) bool {
	return e.background.supervisor.Busy(uid) || e.Shard != nil && e.background.runs.Get(uid) > 0
}

// HasRuns reports whether any run of a daemon or timer hasn't returned, including those that the supervisor has abandoned.
func (e *Engine) HasRuns() bool { return e.background.runs.Len() > 0 }

// shardFilter passes on the events of the shard's objects. An object that appears in the shard and was handled before is treated like one
// of the first list, so that its resume handlers are called.
type shardFilter struct {
	engine *Engine
	next   handler.EventHandler
}

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

func (e *Engine) filterByShard(next handler.EventHandler) handler.EventHandler {
	e.sharding.events = next
	return &shardFilter{e, next}
}

// Create implements [handler.EventHandler].
func (f *shardFilter) Create(ctx context.Context, ev event.CreateEvent, q requests) {
	e := f.engine
	taken, returns := e.sharding.releases.Takes(e.Shard, ev.Object, false)
	if taken {
		return
	}
	ev.IsInInitialList = ev.IsInInitialList || returns || e.wasHandled(ev.Object)
	f.next.Create(ctx, ev, q)
	f.passed(ev.Object, q)
}

// Update implements [handler.EventHandler].
func (f *shardFilter) Update(ctx context.Context, ev event.UpdateEvent, q requests) {
	switch taken, returns := f.engine.sharding.releases.Takes(f.engine.Shard, ev.ObjectNew, false); {
	case taken:
	case returns:
		f.next.Create(ctx, event.CreateEvent{Object: ev.ObjectNew, IsInInitialList: true}, q)
	default:
		f.next.Update(ctx, ev, q)
		f.passed(ev.ObjectNew, q)
	}
}

// passed must be called after an event was passed on. If the object was released in the meantime, the event has restored state that the
// engine had forgotten. It must be forgotten again, because the filter won't pass on the event of the release.
func (f *shardFilter) passed(obj client.Object, q requests) {
	if key := client.ObjectKeyFromObject(obj); f.engine.sharding.releases.IsDone(key) && f.engine.Shard.Leaves(obj) {
		f.engine.forgetReleased(key, obj)
		return
	}
	f.drain(obj, q)
}

// Delete implements [handler.EventHandler].
func (f *shardFilter) Delete(ctx context.Context, ev event.DeleteEvent, q requests) {
	if taken, _ := f.engine.sharding.releases.Takes(f.engine.Shard, ev.Object, true); !taken {
		f.engine.sharding.draining.Note(metrics.DrainingObjects.WithLabelValues(f.engine.Name), client.ObjectKeyFromObject(ev.Object), false)
		f.next.Delete(ctx, ev, q)
	}
}

// Generic implements [handler.EventHandler].
func (f *shardFilter) Generic(ctx context.Context, ev event.GenericEvent, q requests) {
	f.next.Generic(ctx, ev, q)
}

// drain stops an object's daemons and timers if it must be released, and enqueues it regardless of the predicates.
func (f *shardFilter) drain(obj client.Object, q requests) {
	key, leaves := client.ObjectKeyFromObject(obj), f.engine.Shard.Leaves(obj)
	f.engine.sharding.draining.Note(metrics.DrainingObjects.WithLabelValues(f.engine.Name), key, leaves)
	if leaves {
		f.engine.background.supervisor.StopAll(obj.GetUID(), daemons.ErrOutOfScope)
		f.engine.states.MarkQueued(key)
		q.Add(reconcile.Request{NamespacedName: key})
	}
}

// wasHandled reports whether an object that appears in the shard may have been handled before.
func (e *Engine) wasHandled(obj client.Object) bool {
	return e.Remote != nil || e.Baseline.Fetch(obj) != nil
}

// leaveShard stops the reconcile of an object that is leaving the shard. The informer will deliver this state, and the engine then releases
// the object.
func (e *Engine) leaveShard(_ context.Context, r *reconciliation) (Hold, error) {
	if e.Shard != nil && e.Shard.Leaves(r.draft.Base()) {
		return Hold{Reason: HeldByShard}, nil
	}
	return Hold{}, nil
}
