package kopf

import (
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Why the context of a daemon, a timer, or a handler with [CancelOnDelete] has ended: what [context.Cause] tells.
//
// kopf: stopped.reason.
var (
	// ErrDeleted says that the object is being deleted, or is gone.
	ErrDeleted = daemons.ErrDeleted
	// ErrFilteredOut says that the object does not pass the filters of the handler any more.
	ErrFilteredOut = daemons.ErrFilteredOut
	// ErrPaused means that the operator is paused by its peers, or after its process was suspended.
	ErrPaused = daemons.ErrPaused
	// ErrShutdown says that the operator is shutting down, or is not the leader any more.
	ErrShutdown = daemons.ErrShutdown
)

// Temporary makes an error that says: call me again after the delay (0 or less: at once).
// Temporary(nil, delay) is an error, too: the handler is called again, and the text of the error says that the reason is missing.
//
// kopf: raise TemporaryError(..., delay=...).
func Temporary(err error, delay time.Duration) error { return progress.Temporary(err, delay) }

// Permanent makes an error that says: never call me again for this cause. controller-runtime's
// reconcile.TerminalError means the same. Permanent(nil) is an error, too: the handler has failed, and the text of the error says
// that the reason is missing.
//
// kopf: raise PermanentError(...).
func Permanent(err error) error { return progress.Permanent(err) }

// ErrorMode says what an error means that is neither temporary nor permanent.
type ErrorMode = progress.ErrorMode

// The modes for [Errors].
const (
	ErrorsTemporary = progress.ErrorsTemporary // call the handler again after its backoff; the default
	ErrorsPermanent = progress.ErrorsPermanent // the handler has failed
	ErrorsIgnored   = progress.ErrorsIgnored   // the handler is done; the error is logged
)
