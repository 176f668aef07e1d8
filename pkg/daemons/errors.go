package daemons

import "errors"

// These errors are the reasons for stopping a run. In the run, [context.Cause] returns the reason. Callers of Stop can pass other errors.
//
// Equivalent in kopf: stopped.reason.
var (
	// ErrDeleted means that the object is being deleted or no longer exists. Package kopf uses it only if the API server confirms this.
	ErrDeleted = errors.New("object deleted")
	// ErrFilteredOut means that the object no longer matches the filters of the handler.
	ErrFilteredOut = errors.New("object no longer matches the filters")
	// ErrPaused means that the operator or the object is paused.
	ErrPaused = errors.New("operator paused")
	// ErrOutOfScope means that the operator no longer handles the object, although it may still exist.
	ErrOutOfScope = errors.New("object out of scope")
	// ErrShutdown means that the operator is shutting down or is no longer the leader.
	ErrShutdown = errors.New("operator shutting down")
)
