package objectstate

import (
	"cmp"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// State is what this process knows about one object. It is lost when the process exits.
//
// Only the worker that reconciles the object uses the exported fields and methods, and holds the state's lock while it does. observed is
// protected by the [Store]'s lock. The memos are safe for concurrent use.
//
// Every object has a state, so data that only few objects have at a time is kept in maps of the Store.
type State[W any] struct {
	mu sync.Mutex

	// Worker is for the object's worker to keep additional data.
	Worker W
	// ExistedAtStart is true if the object existed when the process started.
	ExistedAtStart bool

	awaited  *awaitedWrite // this process's last write; nil if the cache contains it
	memos    Memos         // what handlers keep for the object
	observed client.Object // the last observed state of the object; nil before its first observation and after it has left the cache
}

// awaitedWrite is what a consistency wait waits for.
type awaitedWrite struct {
	version  string
	deadline time.Time
}

// SetAwaitedVersion sets the resource version and deadline of a consistency wait, without waiting. An empty version only extends the
// deadline.
func (s *State[W]) SetAwaitedVersion(version string, timeout time.Duration) {
	s.awaited = &awaitedWrite{version: cmp.Or(version, s.AwaitedVersion()), deadline: time.Now().Add(timeout)}
}

// AwaitedVersion returns the resource version of this process's last write, or an empty string if the cache contains it.
func (s *State[W]) AwaitedVersion() string {
	if s.awaited == nil {
		return ""
	}
	return s.awaited.version
}

// AwaitDeadline returns when the consistency wait ends, or the zero time if there is no wait.
func (s *State[W]) AwaitDeadline() time.Time {
	if s.awaited == nil {
		return time.Time{}
	}
	return s.awaited.deadline
}

// StopAwaiting ends the consistency wait.
func (s *State[W]) StopAwaiting() { s.awaited = nil }

// Lock locks the state for a worker.
func (s *State[W]) Lock() { s.mu.Lock() }

// TryLock locks the state, or returns false if it is already locked.
func (s *State[W]) TryLock() bool { return s.mu.TryLock() }

// Unlock unlocks the state.
func (s *State[W]) Unlock() { s.mu.Unlock() }
