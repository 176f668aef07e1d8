package kopf

import (
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
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
