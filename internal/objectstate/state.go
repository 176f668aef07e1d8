package objectstate

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
)

// State is what this process knows about one object. It is lost when the process ends, and no handler depends on it.
//
// The exported fields belong to the worker that reconciles the object. The unexported fields belong to the [Store].
type State struct {
	// ListedAtStart is true if the object was in the first listing of the informer.
	ListedAtStart bool
	// FirstVersion is the resource version of the first state of the object that the watch has shown.
	FirstVersion string
	// Handled is true after a cycle of the object has ended in this process. Resume handlers are not called for it again.
	Handled bool
	// SeenAlive is true if this process has seen the object without a deletion timestamp.
	SeenAlive bool
	// OptionalDeleteCalled is true after the optional delete handlers were called.
	OptionalDeleteCalled bool
	// FinalizerRemoved is true after this process has removed its finalizer from an object that is being deleted. The finalizer is not added again.
	FinalizerRemoved bool
	// SeenSinceStart is true if this process has seen a version of the object that is at least as new as the start of the process.
	SeenSinceStart bool
	// FoundDeleted is true after a write has failed because the object no longer exists.
	FoundDeleted bool
	// LoggedTooLarge is true after this process has logged that the last-handled configuration is too large to be stored.
	LoggedTooLarge bool
	// Baselines describes the baselines that this process has stored.
	Baselines cause.History
	// PausesAtBaseline is the number of pauses before the baseline was stored. Other operators may handle the object during a pause.
	PausesAtBaseline int64
	// PausesAtReconcile is the number of pauses before the last reconcile of the object.
	PausesAtReconcile int64
	// AwaitedVersion is the resource version of the last write of this process, until the cache shows it.
	AwaitedVersion string
	// AwaitDeadline ends the consistency wait for AwaitedVersion.
	AwaitDeadline time.Time
	// SettledVersion is the resource version that ended a cycle and left nothing to do; empty if there is none, or if its event was skipped.
	SettledVersion string
	// OwnVersions are the resource versions of writes of this process, until the watch shows them.
	OwnVersions []string
	// PendingWrite is a reconcile whose write has failed. The write is retried before the next decision.
	PendingWrite any
	// Overlay is the framework's part of the object that the API server has rejected; nil if it is stored.
	Overlay *Overlay
	// ReconcileHandlers is the state of the reconcile handlers of the object, by handler id.
	ReconcileHandlers map[string]any
	// ClientWrites collects the writes that handlers make with their own clients.
	ClientWrites any
	// Memos are the values that handlers store for the object.
	Memos *Memos
	// Background is the state of the daemons and timers of the object.
	Background any

	replacedBaseline []byte        // the baseline before it was replaced
	deleted          bool          // MarkDeleted was called, and the object has not been observed since
	newest           client.Object // the newest known state of the object; nil after its deletion
	onDeletion       func()        // called once when the object is being deleted or does not exist
}

// SetAwaitedVersion sets the resource version and the deadline of a consistency wait; it does not wait. With an empty version, it keeps the
// earlier version and sets a new deadline.
func (s *State) SetAwaitedVersion(version string, timeout time.Duration) {
	s.AwaitDeadline = time.Now().Add(timeout)
	if version != "" {
		s.AwaitedVersion = version
	}
}
