package objectstate

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// manyKeys limits the reuse of the map of queued keys. If the map was longer and becomes empty, the store replaces it, because a map keeps its memory.
const manyKeys = 1000

// MarkQueued records that a key was added to the work queue. A key that is already waiting for a worker keeps its time.
func (s *Store[W]) MarkQueued(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since, queued := s.queued[key]; !queued || since.After(time.Now()) {
		s.queued[key] = time.Now()
		s.longestQueue = max(s.longestQueue, len(s.queued))
	}
}

// MarkQueuedAt records that a key will be added to the work queue at a later time. A key that is already queued keeps its time.
func (s *Store[W]) MarkQueuedAt(key types.NamespacedName, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, queued := s.queued[key]; !queued {
		s.queued[key] = at
	}
}

// MarkStarted records that a worker has started to reconcile a key. The key is then neither queued nor skipped.
func (s *Store[W]) MarkStarted(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.queued, key)
	if len(s.queued) == 0 && s.longestQueue > manyKeys { // a start can fill the map, for example
		s.queued, s.longestQueue = map[types.NamespacedName]time.Time{}, 0
	}
	delete(s.skipped, key)
}

// Source returns a source without events of its own. The controller of the objects must watch it, because [Store.Enqueue] uses the queue of the controller.
func (s *Store[W]) Source() source.Source { return queueSource[W]{s} }

type queueSource[W any] struct{ store *Store[W] }

func (queueSource[W]) String() string { return "background" }

// Start implements [source.Source].
func (q queueSource[W]) Start(_ context.Context, controllerQueue queue) error {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	q.store.queue = controllerQueue
	return nil
}

// Queue returns the queue of the controller; nil before the start of the controller, which then reconciles all objects.
func (s *Store[W]) Queue() workqueue.TypedRateLimitingInterface[reconcile.Request] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue
}

// Enqueue adds keys to the queue of the controller. Without a queue, it does nothing.
func (s *Store[W]) Enqueue(priority int, keys ...types.NamespacedName) {
	all := s.Queue()
	for _, key := range keys {
		req := reconcile.Request{NamespacedName: key}
		switch q := all.(type) {
		case nil:
		case priorityqueue.PriorityQueue[reconcile.Request]:
			s.MarkQueued(key)
			q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, req)
		default:
			s.MarkQueued(key)
			q.Add(req)
		}
	}
}

// QueuedSince returns the time since when a key has been waiting for a worker. It returns false if the key is not waiting, or will be queued later.
func (s *Store[W]) QueuedSince(key types.NamespacedName) (since time.Time, queued bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, found := s.queued[key]
	return since, found && !since.After(time.Now())
}

// markSkipped records that the predicates have rejected the event with a version of an object.
func (s *Store[W]) markSkipped(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skipped[client.ObjectKeyFromObject(obj)] = obj.GetResourceVersion()
}

// IsSkipped reports whether the predicates have rejected the event with this version of an object. It returns false after a worker has started to reconcile
// the key.
func (s *Store[W]) IsSkipped(obj client.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	version, skipped := s.skipped[client.ObjectKeyFromObject(obj)]
	return skipped && version == obj.GetResourceVersion()
}

// QueueStats returns the number of keys that are waiting for a worker, and the longest time that one of them has been waiting.
func (s *Store[W]) QueueStats() (n int, longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, since := range s.queued {
		if age := now.Sub(since); age >= 0 {
			n, longest = n+1, max(longest, age)
		}
	}
	return n, longest
}

// QueuedKey is a key that is waiting for a worker.
type QueuedKey struct {
	types.NamespacedName
	Since time.Time
}

// LongestQueued returns at most limit keys that have been waiting for at least minAge, the longest waiting one first.
func (s *Store[W]) LongestQueued(limit int, minAge time.Duration) []QueuedKey {
	var keys []QueuedKey
	s.mu.Lock()
	now := time.Now()
	for key, since := range s.queued {
		if now.Sub(since) >= minAge {
			keys = append(keys, QueuedKey{key, since})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(keys, func(a, b QueuedKey) int { return a.Since.Compare(b.Since) })
	return keys[:min(limit, len(keys))]
}

// IsStillQueued reports whether no worker has started to reconcile the key since it was queued.
func (s *Store[W]) IsStillQueued(key QueuedKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, queued := s.queued[key.NamespacedName]
	return queued && since.Equal(key.Since)
}
