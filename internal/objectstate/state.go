package objectstate

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// State contains the data that this process has about one object. The data is lost when the process ends.
//
// The worker that reconciles the object holds the lock of the state, and only this worker uses the exported fields. The lock of the [Store] protects the
// unexported fields, except for the memos, which have a lock of their own.
type State[W any] struct {
	mu sync.Mutex

	// Worker contains additional data of the worker of the object.
	Worker W
	// ListedAtStart is true if the object was in the first listing of the informer.
	ListedAtStart bool
	// FirstVersion is the resource version of the first observed state of the object.
	FirstVersion string
	// AwaitedVersion is the resource version of the last write of this process, until the cache contains it.
	AwaitedVersion string
	// AwaitDeadline is the time at which the consistency wait for AwaitedVersion ends.
	AwaitDeadline time.Time
	// OwnVersions are the resource versions of writes of this process, until the watch delivers them.
	OwnVersions []string

	memos            Memos         // the values that handlers store for the object
	replacedBaseline []byte        // the baseline before another client replaced it
	deleted          bool          // MarkDeleted was called, and the object has not been observed since
	newest           client.Object // the newest known state of the object; nil after its deletion
	onDeletion       func()        // called once when the object is being deleted or does not exist
}

// SetAwaitedVersion sets the resource version and the deadline of a consistency wait, but does not wait. With an empty version, it keeps the
// earlier version and sets a new deadline.
func (s *State[W]) SetAwaitedVersion(version string, timeout time.Duration) {
	s.AwaitDeadline = time.Now().Add(timeout)
	if version != "" {
		s.AwaitedVersion = version
	}
}

// AddOwnVersions adds the resource versions of writes of this process.
func (s *State[W]) AddOwnVersions(versions ...string) {
	s.OwnVersions = append(s.OwnVersions, versions...)
}

// Lock locks the state for a worker.
func (s *State[W]) Lock() { s.mu.Lock() }

// TryLock locks the state, and returns false if it is locked.
func (s *State[W]) TryLock() bool { return s.mu.TryLock() }

// Unlock unlocks the state.
func (s *State[W]) Unlock() { s.mu.Unlock() }
