package progress

import (
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Temporary says that the attempt failed but the next one, after the delay, may succeed. A delay
// of zero or less means at once. A nil err is a reason to wait like any other.
//
// kopf: raise TemporaryError(..., delay=...).
func Temporary(err error, delay time.Duration) error {
	if err == nil {
		err = errors.New("not ready yet")
	}
	return &TemporaryError{Err: err, Delay: max(0, delay)}
}

// Permanent says that no further attempt would succeed: the handler has failed for this cause.
// [reconcile.TerminalError] means the same.
//
// kopf: raise PermanentError(...).
func Permanent(err error) error {
	if err == nil {
		err = errors.New("failed for good")
	}
	return &PermanentError{Err: err}
}

// A TemporaryError is what [Temporary] makes.
type TemporaryError struct {
	Err   error
	Delay time.Duration // until the next attempt
}

func (e *TemporaryError) Error() string { return e.Err.Error() }
func (e *TemporaryError) Unwrap() error { return e.Err }

// A PermanentError is what [Permanent] makes.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// A LimitError says that a handler was given up because of its [Policy].
type LimitError struct {
	Limit string // what has run out, for people
	Err   error  // of the last attempt; nil if there was none in this process
}

func (e *LimitError) Error() string {
	if e.Err == nil {
		return e.Limit
	}
	return e.Limit + ": " + e.Err.Error()
}

func (e *LimitError) Unwrap() error { return e.Err }

// A PanicError is a panic of a handler, caught. It is treated as any other unknown error.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

func isPermanent(err error) bool {
	var permanent *PermanentError
	return errors.As(err, &permanent) || errors.Is(err, reconcile.TerminalError(nil))
}

// Expected reports whether an error is part of the plan: temporary, permanent, or a limit that was
// reached. Such errors are worth a line in the log, but no stack.
func Expected(err error) bool {
	var temporary *TemporaryError
	var limit *LimitError
	return errors.As(err, &temporary) || errors.As(err, &limit) || isPermanent(err)
}
