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

// manyKeys is the size above which the map of queued keys is replaced once it is empty, because maps don't shrink.
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

// MarkQueuedAt records that a key will be added to the work queue later. A key that is already queued keeps its time.
func (s *Store[W]) MarkQueuedAt(key types.NamespacedName, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, queued := s.queued[key]; !queued {
		s.queued[key] = at
	}
}

// MarkStarted records that a worker has started to reconcile a key, which is then no longer queued or skipped.
func (s *Store[W]) MarkStarted(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.queued, key)
	if len(s.queued) == 0 && s.longestQueue > manyKeys { // for example, the start of the process can fill the map
		s.queued, s.longestQueue = map[types.NamespacedName]time.Time{}, 0
	}
	delete(s.skipped, key)
}

// Source returns a source that the objects' controller must watch, so that [Store.Enqueue] can use its queue. It has no events.
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

// Queue returns the controller's queue. It is nil before the controller starts, which reconciles all objects anyway.
func (s *Store[W]) Queue() workqueue.TypedRateLimitingInterface[reconcile.Request] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue
}

// Enqueue adds keys to the controller's queue. It does nothing before the controller starts.
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

// QueuedSince returns when a key started to wait for a worker. queued is false if it isn't waiting, or is only due to be queued later.
func (s *Store[W]) QueuedSince(key types.NamespacedName) (since time.Time, queued bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, found := s.queued[key]
	return since, found && !since.After(time.Now())
}

// markSkipped records that the predicates have rejected the event with this version of an object.
func (s *Store[W]) markSkipped(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skipped[client.ObjectKeyFromObject(obj)] = obj.GetResourceVersion()
}

// IsSkipped reports whether the predicates have rejected the event with this version of an object. It returns false once a worker has
// started to reconcile the key.
func (s *Store[W]) IsSkipped(obj client.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	version, skipped := s.skipped[client.ObjectKeyFromObject(obj)]
	return skipped && version == obj.GetResourceVersion()
}

// QueueStats returns how many keys are waiting for a worker, and how long the first of them has been waiting.
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

// LongestQueued returns at most limit keys that have been waiting for at least minAge, the longest waiting first.
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
