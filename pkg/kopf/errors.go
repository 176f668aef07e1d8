package kopf

import (
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Temporary returns an error that makes the operator call the handler again after the delay, which is at most 30 days
// ([progress.MaxDelay]). If the delay isn't positive, the next attempt starts immediately. [Retries] and [Timeout] still apply, but
// [ErrorMode] doesn't. If err is nil, the returned error reports the missing cause.
//
// Equivalent in kopf: raise TemporaryError(..., delay=...).
func Temporary(err error, delay time.Duration) error { return progress.Temporary(err, delay) }

// Permanent returns an error that makes the handler fail permanently, so it isn't retried. A cause handler is only called again for a
// different cause, and a reconcile handler after the next change or its [Interval]. For daemons and timers, see [Resource.Daemon] and
// [Resource.Timer]. reconcile.TerminalError has the same effect. If err is nil, the returned error reports the missing cause.
//
// Equivalent in kopf: raise PermanentError(...).
func Permanent(err error) error { return progress.Permanent(err) }
