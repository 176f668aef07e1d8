package progress

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Temporary says that the attempt failed but the next one, after the delay, may succeed. A delay
// of zero or less means at once. With a nil err the attempt has failed, too; its text says that the error is missing.
//
// kopf: raise TemporaryError(..., delay=...).
func Temporary(err error, delay time.Duration) error {
	if err == nil {
		err = errNoReason("Temporary")
	}
	return &TemporaryError{Err: err, Delay: max(0, delay)}
}

// Permanent says that no further attempt would succeed: the handler has failed for this cause.
// [reconcile.TerminalError] means the same. With a nil err the handler has failed, too; its text says that the error is missing.
//
// kopf: raise PermanentError(...).
func Permanent(err error) error {
	if err == nil {
		err = errNoReason("Permanent")
	}
	return &PermanentError{Err: err}
}

// errNoReason is the error of a Temporary or Permanent without an error: often that of a variable which was not set.
func errNoReason(function string) error {
	return fmt.Errorf("%s(nil): pass the error that is the reason, or return nil for success", function)
}

// reason is the error within another one, or a description if it is missing.
func reason(err error, function string) error {
	if err == nil {
		return errNoReason(function)
	}
	return err
}

// A TemporaryError is what [Temporary] makes.
type TemporaryError struct {
	Err   error
	Delay time.Duration // until the next attempt
}

func (e *TemporaryError) Error() string { return reason(e.Err, "Temporary").Error() }
func (e *TemporaryError) Unwrap() error { return e.Err }

// A PermanentError is what [Permanent] makes.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return reason(e.Err, "Permanent").Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// A LimitError says that a handler was given up because of its [Policy].
type LimitError struct {
	Limit string // what has run out, for people
	Err   error  // of the last attempt; nil if there was none
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

// A class is what an error says about further attempts.
type class int

const (
	unknown class = iota
	temporary
	permanent
)

// classify finds what an error says about further attempts: the outermost word counts, in an error
// that joins several the first.
func classify(err error) (class, time.Duration) {
	switch e := err.(type) { //nolint:errorlint // it unwraps step by step
	case nil:
		return unknown, 0
	case *TemporaryError:
		return temporary, e.Delay
	case *PermanentError, *LimitError:
		return permanent, 0
	}
	if e, ok := err.(interface{ Is(error) bool }); ok && e.Is(reconcile.TerminalError(nil)) {
		return permanent, 0
	}
	switch e := err.(type) { //nolint:errorlint // it unwraps step by step
	case interface{ Unwrap() error }:
		return classify(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if c, delay := classify(inner); c != unknown {
				return c, delay
			}
		}
	}
	return unknown, 0
}

// Expected reports whether an error is part of the plan: temporary, permanent, a limit that was
// reached, or a conflict with another writer. Such errors are worth a line in the log, but no stack.
func Expected(err error) bool {
	if limit, ok := errors.AsType[*LimitError](err); ok && limit.Err != nil {
		return Expected(limit.Err) // what was tried up to the limit counts
	}
	c, _ := classify(err)
	return c != unknown || apierrors.IsConflict(err)
}
