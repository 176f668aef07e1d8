package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
)

// pendingHandlers describes the delete handlers of a vanished object that have not succeeded. Only the worker of the object may call it.
func (e *Engine) pendingHandlers(t *tombstone) (all []explain.Handler) {
	if t.state == nil {
		return nil
	}
	for _, id := range e.Handlers.IDs() {
		record := t.state.Record(id)
		if h, _ := e.Handlers.Get(id); record.Started.IsZero() || record.Success || !slices.Contains(h.Reasons, string(cause.Delete)) {
			continue
		}
		one := explain.Handler{ID: id, Kind: "cause", State: stateOf(record)}
		if setRecord(&one, record); one.State == explain.Waiting {
			one.Due = new(record.Delayed)
		}
		all = append(all, one)
	}
	return all
}

// pendingDeletion describes the handlers of the vanished objects of a key that have not succeeded.
func (e *Engine) pendingDeletion(key types.NamespacedName) (all []explain.Handler) {
	for _, t := range e.tombstones.Get(key) {
		if pending := t.pending.Load(); pending != nil {
			all = append(all, *pending...)
		}
	}
	return all
}

// ofVanished explains an object that no longer exists, while its delete handlers are called from memory.
func (x *explanation) ofVanished(key types.NamespacedName) {
	if len(x.engine.tombstones.Get(key)) == 0 {
		return
	}
	x.Cause, x.Deleting = string(cause.Delete), true
	x.Handlers = x.engine.pendingDeletion(key)
	x.waitf("the object does not exist any more: the operator calls its delete handlers with its last known state, until they have finished or the operator ends")
}

// ofQueue explains why no worker reconciles the object: it has been in the queue for at least longQueued, or predicates have rejected its last event although handlers
// are due.
func (x *explanation) ofQueue(key types.NamespacedName, obj client.Object) {
	e := x.engine
	isDue := slices.ContainsFunc(x.Handlers, func(h explain.Handler) bool { return h.State == explain.Due })
	since, queued := e.states.QueuedSince(key)
	switch {
	case queued && x.Time.Sub(since) >= longQueued:
		n, _ := e.states.QueueStats()
		x.waitf("it has been in the queue for %s, with %d other objects: the workers of the kind are busy; see WithMaxConcurrentReconciles, or look for slow handlers",
			x.Time.Sub(since).Round(time.Second), n-1)
	case !queued && isDue && e.states.IsSkipped(obj):
		x.waitf("the predicates of the controller (WithPredicates) have rejected the last event of the object: its handlers are called after the next event that they accept")
	}
}

// longQueued is the shortest time in the queue that an explanation mentions.
const longQueued = time.Second
