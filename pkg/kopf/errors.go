package kopf

import (
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Temporary returns an error that makes the operator call the handler again after the delay. With a delay of 0 or less, the next attempt
// starts immediately. If err is nil, Temporary returns an error that reports the missing cause.
//
// Equivalent in kopf: raise TemporaryError(..., delay=...).
func Temporary(err error, delay time.Duration) error { return progress.Temporary(err, delay) }

// Permanent returns an error that makes the handler fail permanently: the operator does not call it again for this cause.
// reconcile.TerminalError has the same effect. If err is nil, Permanent returns an error that reports the missing cause.
//
// Equivalent in kopf: raise PermanentError(...).
func Permanent(err error) error { return progress.Permanent(err) }
