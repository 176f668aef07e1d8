package daemons

import "errors"

// Why a run was stopped: what [context.Cause] tells of its context. Whoever stops a run may give a cause of
// their own instead.
//
// kopf: stopped.reason.
var (
	// ErrDeleted says that the object is being deleted, or is gone.
	ErrDeleted = errors.New("the object is deleted")
	// ErrFilteredOut says that the object does not match the filters of the handler any more.
	ErrFilteredOut = errors.New("the object does not match the filters any more")
	// ErrPaused says that the operator is paused.
	ErrPaused = errors.New("the operator is paused")
	// ErrShutdown says that the operator is shutting down, or is not the leader any more.
	ErrShutdown = errors.New("the operator is shutting down")
)

// errExited is for a function that has ended its goroutine instead of returning, as a test's FailNow does.
var errExited = errors.New("the function has ended its goroutine and not returned")
