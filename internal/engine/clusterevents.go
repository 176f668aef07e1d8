package engine

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
)

// reasonClusterEvent is the reason of handlers for Kubernetes Events.
const reasonClusterEvent = "event-about"

// maxClusterEvents limits how many Events wait for one handler of one object.
const maxClusterEvents = 100

// appendClusterEvent returns a new list with one more Event that waits for a handler. It replaces an earlier state of the same Event,
// unless other Events wait behind that: they must not be handled after a later occurrence. So at most the oldest and the newest state of an
// Event wait. If too many Events wait, the oldest one is dropped.
func appendClusterEvent(waiting []*invoke.ClusterEvent, event *invoke.ClusterEvent) (next []*invoke.ClusterEvent, dropped bool) {
	next = slices.Clone(waiting)
	isSame := func(other *invoke.ClusterEvent) bool { return other.UID == event.UID }
	if i := slices.IndexFunc(next, isSame); i >= 0 && i == len(next)-1 {
		next = next[:i]
	} else if i >= 0 {
		next = append(next[:i+1], slices.DeleteFunc(next[i+1:], isSame)...)
	}
	next = append(next, event)
	return next[max(0, len(next)-maxClusterEvents):], len(next) > maxClusterEvents
}

// withoutClusterEvent returns a list without an Event, but keeps a newer state of the same Event.
func withoutClusterEvent(waiting []*invoke.ClusterEvent, event *invoke.ClusterEvent) []*invoke.ClusterEvent {
	return slices.DeleteFunc(slices.Clone(waiting), func(other *invoke.ClusterEvent) bool { return other == event })
}

// forgetClusterEvents drops the Events that wait for an object's handlers.
func (e *Engine) forgetClusterEvents(uid types.UID) {
	for _, id := range e.ReconcileHandlers.IDs() {
		e.others.clusterEvents.Take(handlerKey{uid, id})
	}
}

// AddClusterEvent records a Kubernetes Event for a handler, and enqueues the object. If uid is empty, only the key must match.
// AddClusterEvent returns false if the informer hasn't delivered the object, or if the object has a different uid.
func (e *Engine) AddClusterEvent(key types.NamespacedName, uid types.UID, id string, event invoke.ClusterEvent) (known bool) {
	obj := e.states.Observed(key)
	if obj == nil || uid != "" && obj.GetUID() != uid {
		return false
	}
	event.Earlier = event.Earlier || e.paused(key.Namespace) || IsObjectPaused(obj)
	var dropped bool
	e.others.clusterEvents.Update(handlerKey{obj.GetUID(), id}, func(waiting []*invoke.ClusterEvent, _ bool) ([]*invoke.ClusterEvent, bool) {
		waiting, dropped = appendClusterEvent(waiting, &event)
		return waiting, true
	})
	if dropped {
		e.logOf(obj).Info("Too many Events wait for a handler; the oldest one is dropped", "handler", id)
	}
	e.states.Enqueue(triggered, key)
	return true
}
