package progress

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
)

// Temporary returns an error that makes the handler due again after the delay, which is at most [MaxDelay]. With a delay of zero or less,
// it is due immediately. If err is nil, the error says that its cause is missing.
//
// Equivalent in kopf: raise TemporaryError(..., delay=...).
func Temporary(err error, delay time.Duration) error {
	if err == nil {
		err = errMissingCause("Temporary")
	}
	return &TemporaryError{Err: err, Delay: max(0, delay)}
}

// Permanent returns an error that makes the handler fail for the current cause without further attempts, like [reconcile.TerminalError]. If
// err is nil, the error says that its cause is missing.
//
// Equivalent in kopf: raise PermanentError(...).
func Permanent(err error) error {
	if err == nil {
		err = errMissingCause("Permanent")
	}
	return &PermanentError{Err: err}
}

// errMissingCause replaces a nil argument of Temporary or Permanent, which often is a variable that was never set.
func errMissingCause(function string) error {
	return fmt.Errorf("%s(nil): pass the cause of the failure, or return nil for success", function)
}

func orMissingCause(err error, function string) error {
	if err == nil {
		return errMissingCause(function)
	}
	return err
}

// A TemporaryError is the result of [Temporary].
type TemporaryError struct {
	Err   error
	Delay time.Duration // delay before the next attempt
}

func (e *TemporaryError) Error() string { return orMissingCause(e.Err, "Temporary").Error() }
func (e *TemporaryError) Unwrap() error { return e.Err }

// A PermanentError is the result of [Permanent].
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return orMissingCause(e.Err, "Permanent").Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// A LimitError reports that a handler reached a limit of its [Policy] and won't be called again.
type LimitError struct {
	Limit string // description of the limit
	Err   error  // error of the last attempt; nil if there was no attempt
}

func (e *LimitError) Error() string {
	if e.Err == nil {
		return e.Limit
	}
	return e.Limit + ": " + e.Err.Error()
}

func (e *LimitError) Unwrap() error { return e.Err }

// A PanicError is a recovered panic of a handler, or its call to [runtime.Goexit]. It is treated like any other unclassified error.
type PanicError struct {
	// Value is the value of the panic. After a call to runtime.Goexit, it is an error that says so.
	Value any
	Stack []byte

	function string // the function that panicked, such as BackoffFunc; empty for the handler itself
}

func (e *PanicError) Error() string {
	return (&guard.Error{Function: e.function, Value: e.Value}).Error()
}

// A class defines how an error affects further attempts.
type class int

const (
	unknown class = iota
	temporary
	permanent
)

// classify returns the class of an error. The outermost classified error in the chain decides, and in a joined error the first one.
func classify(err error) (class, time.Duration) {
	switch e := err.(type) { //nolint:errorlint // this function unwraps the chain itself
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
	switch e := err.(type) { //nolint:errorlint // this function unwraps the chain itself
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

// Expected reports whether an error is temporary, permanent, a reached limit, or a write conflict. Expected errors should be logged without
// a stack trace. If a limit was reached after an attempt, the error of this attempt decides.
func Expected(err error) bool {
	if limit, ok := errors.AsType[*LimitError](err); ok && limit.Err != nil {
		return Expected(limit.Err)
	}
	c, _ := classify(err)
	return c != unknown || apierrors.IsConflict(err)
}
