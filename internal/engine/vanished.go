package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A tombstone is the last known state of an object that does not exist any more.
type tombstone struct {
	last  client.Object // with the changes that its delete handlers have made since
	known *objectState
	memos *objectstate.Memos
	// state is how far the delete handlers are; nil until the API server has confirmed that the object does not exist.
	state *progress.State
}

// tombstones are those of vanished objects, by their names. The worker of a name is the only one that changes its tombstones.
type tombstones struct {
	mu    sync.Mutex
	named map[types.NamespacedName][]*tombstone
}

func (s *tombstones) add(key types.NamespacedName, t *tombstone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.named == nil {
		s.named = map[types.NamespacedName][]*tombstone{}
	}
	s.named[key] = append(s.named[key], t)
}

func (s *tombstones) of(key types.NamespacedName) []*tombstone {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.named[key])
}

func (s *tombstones) remove(key types.NamespacedName, t *tombstone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := slices.DeleteFunc(s.named[key], func(one *tombstone) bool { return one == t })
	if s.named[key] = left; len(left) == 0 {
		delete(s.named, key)
	}
}

// Vanished returns the names of vanished objects whose delete handlers are not done. For the test kit.
func (e *Engine) Vanished() (names []types.NamespacedName) {
	e.tombstones.mu.Lock()
	defer e.tombstones.mu.Unlock()
	for name := range e.tombstones.named {
		names = append(names, name)
	}
	return names
}

// isVanished reports whether an object has disappeared although our finalizer held it and nobody had marked it for deletion: the
// API server removes an object when a deletion crosses the write of its first finalizer. If a pause began since the object was
// last looked at, a peer has handled it. What is only known from a cache that is behind the start of the process, an earlier process may
// have handled.
func (e *Engine) isVanished(t *tombstone) bool {
	return t.known.Worker.SeenSinceStart && e.hasFinalizer(t.last) && t.last.GetDeletionTimestamp() == nil && !t.known.Worker.FinalizerRemoved && t.known.Worker.PausesAtReconcile == e.pauses.Load()
}

// cycleOf puts a cycle on the last known state of an object.
func (e *Engine) lastReconciliation(ctx context.Context, t *tombstone) (*reconciliation, context.Context, error) {
	ctx = objectstate.ContextWithMemos(ctx, t.memos)
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("uid", string(t.last.GetUID())))
	r := &reconciliation{known: t.known, gone: true}
	if err := r.setBase(t.last); err != nil {
		return nil, ctx, err
	}
	e.detect(ctx, r)
	e.matchHandlers(ctx, r)
	return r, ctx, nil
}

// handleVanished calls the delete handlers that are due for the vanished objects of a name, by their policies. It keeps their
// progress in memory, as there is no object to write it to. It returns when to come back; 0: all of them are done.
func (e *Engine) handleVanished(ctx context.Context, key types.NamespacedName) (wait time.Duration) {
	for _, t := range e.tombstones.of(key) {
		left, done := e.handleTombstone(ctx, t)
		if done {
			e.tombstones.remove(key, t)
			e.eventLimiter.Forget(t.last.GetUID())
			continue
		}
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
			log.FromContext(ctx).Error(err, "Failed to check whether the object is deleted; its delete handlers wait", "retryAfter", consistencyTimeout.String())
			return consistencyTimeout, false
		case exists: // the watch is restricted, and does not show it any more
			e.finishDeleted(ctx, t)
			return 0, true
		}
	}
	r, ctx, err := e.lastReconciliation(ctx, t)
	if err != nil {
		return 0, true // it could not be handled either
	}
	if t.state == nil {
		log.FromContext(ctx).Info("The object vanished although our finalizer held it; calling its delete handlers with its last known state")
		t.state = r.state
	}
	r.state, r.cause.Reason, r.cause.Facts.Deleting = t.state, cause.Delete, true
	e.selectHandlers(ctx, r)
	e.makePlan(ctx, r)
	_ = e.run(ctx, r) // nothing is written, so that there is nothing to fail
	t.last = r.object
	wait, left := e.untilNext(r, now())
	return wait, !left
}
