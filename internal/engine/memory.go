package engine

import (
	"github.com/kopf-runtime/kopf-runtime/internal/background"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
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
	// SeenSinceStart is true if this process has seen a version of the object that is at least as new as the start of the process.
	SeenSinceStart bool
	// PausesAtReconcile is the number of pauses before the last reconcile of the object.
	PausesAtReconcile int64
	// SettledVersion is the resource version that ended a cycle and left nothing to do; empty if there is none, or if its event was skipped.
	SettledVersion string
	// Writes is what this process remembers of its writes.
	Writes commit.Memory
	// ReconcileHandlers is the state of the reconcile handlers of the object, by handler id.
	ReconcileHandlers map[string]*reconcileHandlerState
	// ClientWrites collects the writes that handlers make with their own clients.
	ClientWrites *clientWrites
	// Background is the state of the daemons and timers of the object.
	Background *background.State
}

type (
	objectState = objectstate.State[objectMemory]
	objectStore = objectstate.Store[objectMemory]
)
