package engine

import (
	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// objectMemory is what the engine knows of one object beyond the cache. Only the worker of the object uses it.
type objectMemory struct {
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
	Baselines cause.BaselineHistory
	// PausesAtBaseline is the number of pauses before the baseline was stored. Other operators may handle the object during a pause.
	PausesAtBaseline int64
	// PausesAtReconcile is the number of pauses before the last reconcile of the object.
	PausesAtReconcile int64
	// SettledVersion is the resource version that ended a cycle and left nothing to do; empty if there is none, or if its event was skipped.
	SettledVersion string
	// PendingWrite is a reconcile whose write has failed. The write is retried before the next decision.
	PendingWrite *reconciliation
	// Overlay is the framework's part of the object that the API server has rejected; nil if it is stored.
	Overlay *overlay
	// Remote is the framework's part of the object that is stored outside of it; nil if it is not known.
	Remote *remotePart
	// ReconcileHandlers is the state of the reconcile handlers of the object, by handler id.
	ReconcileHandlers map[string]*reconcileHandlerState
	// Loops describes the changes by which handlers cause their own calls; nil if there are none.
	Loops *handlerLoops
	// Background is the state of the daemons and timers of the object.
	Background *backgroundState
}

type (
	objectState = objectstate.State[objectMemory]
	objectStore = objectstate.Store[objectMemory]
)

// overlay is the framework's part of an object (records, baseline, pin) that the API server has rejected. The engine handles the object as if this part
// were stored, until the process ends.
type overlay struct {
	// Patch is the rejected part, as a JSON merge patch.
	Patch map[string]any
	// Content is the JSON form of the object for which the API server rejected the patch.
	Content map[string]any
	// Message is the error message of the API server.
	Message string
}
