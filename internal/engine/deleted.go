package engine

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// handleDeleted handles a key's objects that have left the cache. It returns the time until the next delete handler is due, or 0 if none is
// left.
func (e *Engine) handleDeleted(ctx context.Context, key types.NamespacedName) (wait time.Duration) {
	for _, left := range e.states.TakeLeft(key) {
		last := left.Object
		if left.Inferred {
			missing, err := e.isMissingInCache(ctx, last)
			if err != nil {
				log.FromContext(ctx).Error(err, "Failed to check whether the object is deleted; its delete handlers wait", "retryAfter", e.ConsistencyTimeout.String())
				e.states.RestoreLeft(left)
				wait = e.ConsistencyTimeout
				continue
			}
			if missing {
				log.FromContext(ctx).Info("A list of the API server lacked the object, which still exists; continuing when the cache has it again")
				continue
			}
		}
		t := &tombstone{known: e.states.GetOrCreate(last.GetUID()), memos: e.states.Memos(last.GetUID())}
		t.known.Lock() // the state stays locked, because only the tombstone refers to it
		e.forget(last.GetUID())
		e.endWork(last, false) // a daemon may have been started since
		if e.states.Observed(key) == nil {
			e.queue.backingOff.Take(key)
			e.forgetTracked(key)
			e.leaveRollout(key)
		}
		t.last = e.wholeCopy(last)
		e.planLastCalls(ctx, key, t)
		if e.isVanished(t) {
			e.gone.tombstones.Set(key, append(slices.Clone(e.gone.tombstones.Get(key)), t))
		} else {
			e.finishDeleted(ctx, t)
		}
	}
	if vanished := e.handleVanished(ctx, key); wait == 0 || vanished > 0 && vanished < wait {
		wait = vanished
	}
	return wait
}

// isMissingInCache reports whether the cache lacks an object that exists and belongs in it. The data about the object is then kept. An
// object that no longer decodes is not missing: it is out of scope until a client repairs it.
func (e *Engine) isMissingInCache(ctx context.Context, obj client.Object) (bool, error) {
	key := client.ObjectKeyFromObject(obj)
	live, err := e.readLive(ctx, key)
	if err != nil {
		if _, fault := e.findFault(ctx, key); fault != nil {
			return false, nil //nolint:nilerr // the fault is the error
		}
	}
	return live != nil && live.GetUID() == obj.GetUID() && e.IsWatched(live), err
}

// finishDeleted calls the optional delete handlers for an object that has left the cache, if it no longer exists. It also removes stored
// engine data that the object no longer needs.
func (e *Engine) finishDeleted(ctx context.Context, t *tombstone) {
	r, ctx, err := e.lastReconciliation(ctx, t)
	if err != nil {
		return // the object could not be handled before, either
	}
	e.callOptionalDelete(ctx, r)
	if _, isForgotten := e.Remote.(progress.Forgetter); r.session.HasRemotePart() && !isForgotten && !e.stillExists(ctx, r) {
		r.session.DeleteRemote(ctx)
	}
	e.removeStaleAnnotations(ctx, r)
	e.events.Limiter.Forget(t.last.GetUID())
}

// removeStaleAnnotations removes the framework's data from an object that has left the cache but still exists. If the object has lost the
// labels that the cache is restricted to, the informer won't deliver it again.
func (e *Engine) removeStaleAnnotations(ctx context.Context, lost *reconciliation) {
	_, delayed := lost.session.Records.StaleAfter(now())
	if e.Shard != nil { // a different shard may handle the object
		return
	}
	if !lost.session.Records.HasStale(now()) && !delayed && (e.detector.Stateless || e.Pin.Fetch(lost.draft.Base()) == nil) {
		return
	}
	suspensions := e.committer.SuspensionCount()
	obj, err := e.readLive(ctx, client.ObjectKeyFromObject(lost.draft.Base()))
	if obj == nil || err != nil || obj.GetUID() != lost.draft.Base().GetUID() {
		return
	}
	r := e.newReconciliation(&objectState{})
	r.session.Leaving, r.session.Suspensions = true, suspensions
	if err := r.draft.SetBase(obj); err != nil {
		return
	}
	if err := r.session.UseOverlay(ctx); err != nil {
		log.FromContext(ctx).Info("Failed to remove annotations from unmatched object", "error", err.Error())
		return
	}
	if e.detect(ctx, r, nil); len(r.matching.handlers) > 0 {
		return // the object matches again, and will be reconciled
	}
	if _, err := e.commit(ctx, r); err != nil {
		log.FromContext(ctx).Info("Failed to remove annotations from unmatched object", "error", err.Error())
	}
}

// callOptionalDelete calls the optional delete handlers once, with the object's last known state. It ignores objects whose deletion began
// before the operator started.
func (e *Engine) callOptionalDelete(ctx context.Context, r *reconciliation) {
	ids := slices.DeleteFunc(slices.Clone(r.matching.handlers), func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return !handler.IsOptionalDelete()
	})
	if len(ids) == 0 || r.known.Worker.OptionalDeleteCalled || !r.known.Worker.SeenAlive || r.session.Gone && !r.session.Cause.Deleting && e.stillExists(ctx, r) {
		return
	}
	r.known.Worker.OptionalDeleteCalled = true
	r.session.Cause = r.session.Cause.WithReason(cause.Delete)
	record := progress.Record{Started: now()}
	for _, id := range ids {
		log.FromContext(ctx).V(1).Info("The deletion of the object does not wait for the operator; calling an optional delete handler", "handler", id)
		handler, _ := e.Handlers.Get(id)
		e.callOnce(ctx, r, id, handler, record)
	}
}

// callOnce calls an optional delete handler and its sub-handlers. Their progress isn't stored, so they aren't retried. A handler that
// awaits its sub-handlers is called again after them.
func (e *Engine) callOnce(ctx context.Context, r *reconciliation, id string, h *invoke.Handler, record progress.Record) {
	var called []string // the sub-handlers
	for callAgain := true; callAgain; {
		callAgain = false
		var req *invoke.Request
		invoke.HandlerAttempt{
			Hooks: e.traits.hooks, CycleStarted: record.Attempt().Started,
			Kind: e.Name, ID: id, Handler: h, View: r.attemptView(), Record: record, Once: true,
			Prepare: func(req *invoke.Request) {
				req.SubFinished = func(sub invoke.SubHandler) bool {
					return slices.Contains(called, sub.ID) || !e.subHandlerMatches(ctx, r, h, sub)
				}
			},
			Accept: func(accepted *invoke.Request, _ error) error { req = accepted; return nil },
			AdjustOutcome: func(attemptCtx context.Context, outcome progress.Outcome) progress.Outcome {
				if !outcome.Success || outcome.Err != nil {
					return outcome
				}
				subs, handlers, err := e.selectSubHandlers(ctx, r, id, h, req.SubHandlers)
				if err != nil {
					return progress.Outcome{Err: progress.Permanent(err), Final: true, Attempted: true}
				}
				for _, sub := range subs {
					if !slices.Contains(called, sub) {
						called = append(called, sub)
						e.callOnce(attemptCtx, r, sub, handlers[sub], record)
					}
				}
				if callAgain = req.AwaitsSubs; callAgain {
					return progress.Outcome{Waiting: true}
				}
				return outcome
			},
		}.Run(ctx)
	}
}

// stillExists reports whether an object that has left the cache still exists. It may only have lost the labels that the cache is restricted
// to. If the check fails, stillExists returns true, so that the optional delete handlers aren't called for an existing object.
func (e *Engine) stillExists(ctx context.Context, r *reconciliation) bool {
	exists, err := e.exists(ctx, r.draft.Base())
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to check whether the object is deleted; the optional delete handlers are not called")
		return true
	}
	return exists
}

// Vanished returns the keys of vanished objects whose delete handlers haven't finished. It is for the test kit and [Engine.Status].
func (e *Engine) Vanished() []types.NamespacedName { return e.gone.tombstones.Keys() }

// isVanished reports whether an object has disappeared although it had our finalizer and no deletion timestamp. The API server may remove
// an object like this if it is deleted while its first finalizer is being written. isVanished returns false if a peer may have handled the
// object, because a pause has begun since the last reconcile. It also returns false if an earlier process may have done so, because the
// cache is older than the epoch.
func (e *Engine) isVanished(t *tombstone) bool {
	memory := t.known.Worker
	finalizerRemoved := memory.Details != nil && memory.Details.Memory.FinalizerRemoved
	return memory.SeenSinceStart && e.hasFinalizer(t.last) && t.last.GetDeletionTimestamp() == nil && !finalizerRemoved && memory.PausesAtReconcile == e.pause.count.Load()
}

// lastReconciliation returns a reconciliation of an object's last known state, and its context.
func (e *Engine) lastReconciliation(ctx context.Context, t *tombstone) (*reconciliation, context.Context, error) {
	ctx = objectstate.ContextWithMemos(ctx, t.memos)
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("uid", string(t.last.GetUID())))
	r := e.newReconciliation(t.known)
	r.session.Gone = true
	if err := r.draft.SetBase(t.last); err != nil {
		return nil, ctx, err
	}
	e.detect(ctx, r, nil)
	t.known.Worker.SeenAlive = t.known.Worker.SeenAlive || !r.session.Cause.Deleting
	return r, ctx, nil
}

// handleVanished calls the due delete handlers for a key's vanished objects, following their policies. Their progress is kept in memory,
// because there is no object to store it on. handleVanished returns the time until the next call, or 0 if all handlers have finished.
func (e *Engine) handleVanished(ctx context.Context, key types.NamespacedName) (wait time.Duration) {
	for _, t := range e.gone.tombstones.Get(key) {
		left, done := e.handleTombstone(ctx, t)
		if done {
			e.gone.tombstones.Update(key, func(all []*tombstone, _ bool) ([]*tombstone, bool) {
				all = slices.DeleteFunc(slices.Clone(all), func(one *tombstone) bool { return one == t })
				return all, len(all) > 0
			})
			e.events.Limiter.Forget(t.last.GetUID())
			continue
		}
		t.pending.Store(new(e.pendingHandlers(t)))
		if left = max(left, time.Millisecond); wait == 0 || left < wait {
			wait = left
		}
	}
	return wait
}

func (e *Engine) handleTombstone(ctx context.Context, t *tombstone) (wait time.Duration, done bool) {
	if t.state == nil {
		exists, err := e.exists(ctx, t.last)
		switch {
		case err != nil:
			log.FromContext(ctx).Error(err, "Failed to check whether the object is deleted; its delete handlers wait", "retryAfter", e.ConsistencyTimeout.String())
			return e.ConsistencyTimeout, false
		case exists: // it only stopped matching the watch's selector
			e.finishDeleted(ctx, t)
			return 0, true
		}
	}
	r, ctx, err := e.lastReconciliation(ctx, t)
	if err != nil {
		return 0, true // the object could not be handled before, either
	}
	if t.state == nil {
		log.FromContext(ctx).Info("The object was deleted although it had the finalizer of the operator; calling its delete handlers with its last known state")
		t.state = r.session.Records
	}
	deletion := r.session.Cause.WithReason(cause.Delete)
	deletion.Facts.Deleting = true
	r.session.Cause = deletion
	r.session.Records = t.state
	e.selectHandlers(ctx, r)
	e.makePlan(ctx, r)
	_ = e.callCauseHandlers(ctx, r) // it only returns errors of writes, and nothing is written
	t.last = r.draft.Current().Object
	wait, left := e.untilNext(r, now())
	return wait, !left
}
