package engine

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// A Pauser says where the operator is paused, and why.
type Pauser interface {
	Paused(namespace string) (paused bool, why string)
}

// held is what waits for the end of a pause.
type pausedKeys struct {
	mu      sync.Mutex
	names   map[types.NamespacedName]bool // that were to be handled
	stopped map[string]bool               // namespaces in which nothing is started in the background; "": nowhere is
}

func (e *Engine) paused(namespace string) bool {
	if e.Pause == nil {
		return false
	}
	paused, _ := e.Pause.Paused(namespace)
	return paused
}

// postpone takes note of a name if the operator is paused there. It asks and notes in one step: a pause that ends meanwhile
// finds the name.
func (e *Engine) deferIfPaused(ctx context.Context, key types.NamespacedName) bool {
	if e.Pause == nil {
		return false
	}
	e.pausedKeys.mu.Lock()
	defer e.pausedKeys.mu.Unlock()
	paused, why := e.Pause.Paused(key.Namespace)
	if !paused {
		return false
	}
	log.FromContext(ctx).V(1).Info("The operator is paused; the object is handled later", "why", why)
	if e.pausedKeys.names == nil {
		e.pausedKeys.names = map[types.NamespacedName]bool{}
	}
	e.pausedKeys.names[key] = true
	return true
}

// PauseChanged is to be called when a pause has begun or ended in a namespace; "" means everywhere. What runs in the background
// is stopped, and started again. At the end of a pause every object is looked at once, first those with news.
func (e *Engine) PauseChanged(namespace string) {
	begun, ended := e.changedNamespaces(namespace)
	if len(begun) > 0 {
		e.pauses.Add(1)
		e.supervisor.Pause(supervisorNamespaces(begun)...)
	}
	if len(ended) > 0 {
		defer e.supervisor.Resume(supervisorNamespaces(ended)...)
		e.reconcileAll(ended)
	}
}

// affected are the namespaces in which a pause has begun or ended. Those that are watched, but that nobody tells of, as they were
// not named to the peering, are among them: they are paused while any of the others is.
func (e *Engine) changedNamespaces(namespace string) (begun, ended []string) {
	e.pausedKeys.mu.Lock()
	defer e.pausedKeys.mu.Unlock()
	if e.pausedKeys.stopped == nil {
		e.pausedKeys.stopped = map[string]bool{}
	}
	all := map[string]bool{namespace: true}
	if namespace != "" {
		maps.Copy(all, e.pausedKeys.stopped)
		for _, obj := range e.states.List() {
			all[obj.GetNamespace()] = true
		}
	}
	for one := range all {
		switch paused := e.paused(one); {
		case paused && !e.pausedKeys.stopped[one]:
			e.pausedKeys.stopped[one] = true
			begun = append(begun, one)
		case !paused && e.pausedKeys.stopped[one]:
			delete(e.pausedKeys.stopped, one)
			ended = append(ended, one)
		}
	}
	return begun, ended
}

// orEverywhere is how the supervisor is told.
func supervisorNamespaces(namespaces []string) []string {
	if slices.Contains(namespaces, "") {
		return nil
	}
	return namespaces
}

// lookAt has all objects of some namespaces looked at.
func (e *Engine) reconcileAll(namespaces []string) {
	e.pausedKeys.mu.Lock()
	pendingEvents := map[types.NamespacedName]bool{}
	for key := range e.pausedKeys.names {
		if !e.paused(key.Namespace) {
			pendingEvents[key] = true
			delete(e.pausedKeys.names, key)
		}
	}
	e.pausedKeys.mu.Unlock()
	e.enqueuer.mu.Lock()
	defer e.enqueuer.mu.Unlock()
	if e.enqueuer.queue == nil {
		return
	}
	all := e.states.List()
	// What accompanies objects with news may not want them any more: that is looked at first. It is stopped before any worker
	// is woken, as that would be what starts it again.
	for _, obj := range all {
		if pendingEvents[client.ObjectKeyFromObject(obj)] {
			e.supervisor.StopAll(obj.GetUID(), daemons.ErrPaused)
		}
	}
	for key := range pendingEvents {
		e.states.MarkQueued(key)
		e.enqueuer.queue.Add(reconcile.Request{NamespacedName: key})
	}
	for _, obj := range all {
		key := client.ObjectKeyFromObject(obj)
		if supervisorNamespaces(namespaces) != nil && !slices.Contains(namespaces, key.Namespace) || pendingEvents[key] {
			continue
		}
		e.states.MarkQueued(key)
		if prioritized, ok := e.enqueuer.queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
			prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, reconcile.Request{NamespacedName: key})
		} else {
			e.enqueuer.queue.Add(reconcile.Request{NamespacedName: key})
		}
	}
}
