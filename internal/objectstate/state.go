package objectstate

import (
	"cmp"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// State contains the data that this process has about one object. The data is lost when the process ends.
//
// The worker that reconciles the object holds the lock of the state, and only this worker uses the exported fields and methods. The lock of the [Store]
// protects observed. The memos are safe for concurrent use.
//
// There is a state for each object. Data that only few objects have at a time is in maps of the Store.
type State[W any] struct {
	mu sync.Mutex

	// Worker contains additional data of the worker of the object.
	Worker W
	// ExistedAtStart is true if the object existed when the process started.
	ExistedAtStart bool

	awaited  *awaitedWrite // the last write of this process; nil if the cache contains it
	memos    Memos         // the values that handlers store for the object
	observed client.Object // the last observed state of the object; nil before its first observation and after it has left the cache
}

// awaitedWrite describes a consistency wait.
type awaitedWrite struct {
	version  string
	deadline time.Time
}

// SetAwaitedVersion sets the resource version and the deadline of a consistency wait, but does not wait. With an empty version, it keeps the
// earlier version and sets a new deadline.
func (s *State[W]) SetAwaitedVersion(version string, timeout time.Duration) {
	s.awaited = &awaitedWrite{version: cmp.Or(version, s.AwaitedVersion()), deadline: time.Now().Add(timeout)}
}

// AwaitedVersion returns the resource version of the last write of this process. It returns an empty string if the cache contains the write.
func (s *State[W]) AwaitedVersion() string {
	if s.awaited == nil {
		return ""
	}
	return s.awaited.version
}

// AwaitDeadline returns the time at which the consistency wait ends. It returns the zero time if there is no wait.
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

// TryLock locks the state, and returns false if it is locked.
func (s *State[W]) TryLock() bool { return s.mu.TryLock() }

// Unlock unlocks the state.
func (s *State[W]) Unlock() { s.mu.Unlock() }
