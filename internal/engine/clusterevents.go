package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
)

// reasonClusterEvent is the reason of handlers for Kubernetes Events.
const reasonClusterEvent = "event-about"

// maxClusterEvents limits the Events that wait for one handler of one object.
const maxClusterEvents = 100

// clusterEvents are the Kubernetes Events that wait for their handlers, by the uid of the object and the id of the handler.
type clusterEvents struct {
	mu      sync.Mutex
	waiting map[types.UID]map[string][]*invoke.ClusterEvent
}

// add records an Event after the waiting ones. It replaces an earlier state of the same Event, unless other Events wait after it: these must not be handled after a
// later occurrence. Of the states of one Event, only the oldest and the newest one wait. If too many Events wait, add drops the oldest one and returns false.
func (c *clusterEvents) add(uid types.UID, id string, event *invoke.ClusterEvent) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		c.waiting = map[types.UID]map[string][]*invoke.ClusterEvent{}
	}
	if c.waiting[uid] == nil {
		c.waiting[uid] = map[string][]*invoke.ClusterEvent{}
	}
	all := c.waiting[uid][id]
	isSame := func(other *invoke.ClusterEvent) bool { return other.UID == event.UID }
	if i := slices.IndexFunc(all, isSame); i >= 0 && i == len(all)-1 {
		all[i] = event
		return true
	} else if i >= 0 {
		all = append(all[:i+1], slices.DeleteFunc(all[i+1:], isSame)...)
	}
	all = append(all, event)
	c.waiting[uid][id] = all[max(0, len(all)-maxClusterEvents):]
	return len(all) <= maxClusterEvents
}

// first returns the oldest waiting Event, and the number of waiting Events.
func (c *clusterEvents) first(uid types.UID, id string) (*invoke.ClusterEvent, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.waiting[uid][id]
	if len(all) == 0 {
		return nil, 0
	}
	return all[0], len(all)
}

// others returns the other waiting Events of the handler.
func (c *clusterEvents) others(uid types.UID, id string, event *invoke.ClusterEvent) (others []*corev1.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.waiting[uid][id] {
		if other != event {
			others = append(others, other.Event)
		}
	}
	return others
}

// done removes an Event. If a newer state of the Event was recorded in the meantime, that state remains.
func (c *clusterEvents) done(uid types.UID, id string, event *invoke.ClusterEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if all := slices.DeleteFunc(c.waiting[uid][id], func(other *invoke.ClusterEvent) bool { return other == event }); len(all) > 0 {
		c.waiting[uid][id] = all
		return
	}
	if delete(c.waiting[uid], id); len(c.waiting[uid]) == 0 {
		delete(c.waiting, uid)
	}
}

// drop removes the Events of one handler.
func (c *clusterEvents) drop(uid types.UID, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.waiting[uid], id); len(c.waiting[uid]) == 0 {
		delete(c.waiting, uid)
	}
}

// forget removes the Events of a deleted object.
func (c *clusterEvents) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, uid)
}

// AddClusterEvent records a Kubernetes Event for a handler, and enqueues the object. With an empty uid, only the key must match. AddClusterEvent returns
// false if the informer has not delivered the object, or if the object has another uid.
func (e *Engine) AddClusterEvent(key types.NamespacedName, uid types.UID, id string, event invoke.ClusterEvent) (known bool) {
	obj := e.states.Observed(key)
	if obj == nil || uid != "" && obj.GetUID() != uid {
		return false
	}
	event.Earlier = event.Earlier || e.paused(key.Namespace) || IsObjectPaused(obj)
	if !e.clusterEvents.add(obj.GetUID(), id, &event) {
		e.logOf(obj).Info("Too many Events wait for a handler; the oldest one is dropped", "handler", id)
	}
	e.states.MarkQueued(key)
	e.enqueuer.add(key)
	return true
}

// callForClusterEvents calls a handler for the Events that wait for it, in the order of their arrival. While an attempt must be repeated, the later Events
// wait. The state of the handler is kept in memory only.
func (e *Engine) callForClusterEvents(ctx context.Context, r *reconciliation, id string, h invoke.Handler, st *reconcileHandlerState) {
	uid := r.Base().GetUID()
	for {
		event, _ := e.clusterEvents.first(uid, id)
		if event == nil {
			st.dirty = false // changes of the object are irrelevant
			return
		}
		st.dirty = true
		if !st.isDue(now(), false) || hasEnded(ctx) || e.stopIfPaused(r) {
			return
		}
		call := *event
		call.Waiting = func() []*corev1.Event {
			received := event.Waiting() // first, because Events are added to the inbox before they are removed from there
			return append(received, e.clusterEvents.others(uid, id, event)...)
		}
		e.callReconcileHandler(ctx, r, id, h, st, &call)
		if !st.record.Started.IsZero() || st.dirty {
			log.FromContext(ctx).V(1).Info("The Event is handled again", "handler", id, "event", event.Name)
			return
		}
		e.clusterEvents.done(uid, id, event)
	}
}

// ofClusterEvents explains a handler for Kubernetes Events.
func (x *explanation) ofClusterEvents(h invoke.Handler) func(*explain.Handler) {
	return func(one *explain.Handler) {
		one.Why = "it is called for " + h.ClusterEvents
		_, waiting := x.engine.clusterEvents.first(x.r.Base().GetUID(), one.ID)
		if waiting == 0 {
			return
		}
		one.State, one.Why = explain.Due, fmt.Sprintf("%d Events wait for it", waiting)
		if st := x.r.known.Worker.ReconcileHandlers[one.ID]; st != nil {
			one.Attempts, one.LastError = st.record.Retries, st.record.Message
			if next := st.next(); next.After(x.Time) {
				one.State, one.Due = explain.Waiting, &next
			}
		}
	}
}
