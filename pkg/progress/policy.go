package progress

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
)

// DefaultBackoff is the delay after an unclassified error.
//
// Equivalent in kopf: settings.execution.default_backoff.
const DefaultBackoff = time.Minute

// An ErrorMode defines what happens after an unclassified error, meaning one that is neither temporary nor permanent.
//
// Equivalent in kopf: errors=ErrorsMode....
type ErrorMode int

const (
	// ErrorsTemporary retries after the backoff. It is the default.
	ErrorsTemporary ErrorMode = iota
	// ErrorsPermanent makes the handler fail permanently.
	ErrorsPermanent
	// ErrorsIgnored makes the handler succeed. Packages kopf and daemons log the error.
	ErrorsIgnored
)

// An Attempt describes the current attempt. Its values come from the [Record], so they survive a restart if the record is stored.
type Attempt struct {
	// Number counts the attempts, starting with 0. Equivalent in kopf: retry.
	Number int
	// Started is when the handler was first selected, in UTC and in whole microseconds, as stored. It stays the same if the cause changes
	// before the handler has finished.
	// Equivalent in kopf: started.
	Started time.Time
	// Last is the error message of the previous attempt, truncated to 1024 bytes; empty if there was no error.
	Last string
}

// Runtime returns the time since Started. Equivalent in kopf: runtime.
func (a Attempt) Runtime() time.Duration { return time.Since(a.Started) }

// A Policy limits the attempts of a handler and defines the delays between them. The zero value retries without limit, with
// [DefaultBackoff] between attempts.
type Policy struct {
	// Retries is the maximum number of attempts, including the first one. Nil means no limit; with 0, the handler fails without being called.
	// Equivalent in kopf: retries=.
	Retries *int
	// Timeout is how long after the handler was first selected an attempt may still start; nil means no limit. It is checked between attempts and
	// doesn't interrupt a running one. If the next attempt would be too late, the handler fails without waiting. The first attempt is
	// always made, unless the timeout is 0. Time spent waiting for sub-handlers counts.
	// Equivalent in kopf: timeout=.
	Timeout *time.Duration
	// Backoff is the delay after an unclassified error; nil means [DefaultBackoff]. If the error comes from the API server and asks for a
	// longer delay, that delay is used. Equivalent in kopf: backoff=.
	Backoff *time.Duration
	// BackoffFunc computes the delay after an unclassified error, instead of Backoff. Here too, a longer delay that the API server asks for
	// is used.
	BackoffFunc func(a Attempt, err error) time.Duration
	// AttemptTimeout is the timeout of each attempt's context; 0 means no limit.
	AttemptTimeout time.Duration
	// Errors defines what happens after an unclassified error. Equivalent in kopf: errors=.
	Errors ErrorMode
}

// An Outcome describes how an attempt ended and what happens next.
type Outcome struct {
	// Err is the error of the attempt, or nil. If its text is longer than 16 KiB, Err wraps it and keeps only the beginning and the end of
	// the text. With [ErrorsIgnored], a successful outcome can have an error.
	Err error
	// Final means that there will be no further attempt. Otherwise the next one follows after Delay.
	Final bool
	Delay time.Duration
	// Success means that the handler has succeeded. Only a final outcome can be successful.
	Success bool
	// Attempted is false if a limit prevented the call, or if the attempt was interrupted.
	Attempted bool
	// Waiting means that the handler itself has finished and waits for its sub-handlers. The attempt doesn't count.
	Waiting bool
	// Interrupted means that the attempt failed after its context was cancelled, for example because the process is stopping. The attempt
	// doesn't count and will be repeated.
	Interrupted bool
}

// Attempt checks the limits, calls the function, recovers from a panic, and returns the outcome. The parameter now is the start of the
// attempt. Attempt doesn't return if the function calls [runtime.Goexit], for example through testing's FailNow.
func (p Policy) Attempt(ctx context.Context, record Record, now time.Time, fn func(context.Context) error) Outcome {
	if limit := p.limitReached(record, now); limit != "" {
		return Outcome{Err: &LimitError{Limit: limit, Err: storedError(record)}, Final: true}
	}
	attempt := ctx
	if p.AttemptTimeout > 0 {
		var cancel context.CancelFunc
		attempt, cancel = context.WithTimeout(ctx, p.AttemptTimeout)
		defer cancel()
	}
	began := time.Now()
	err := callRecovering(attempt, fn)
	ended := now.Add(time.Since(began))
	return p.recoverOutcome(record, ended, func() Outcome {
		if err != nil && errors.Is(ctx.Err(), context.Canceled) && !Expected(err) {
			return Outcome{Err: err, Interrupted: true}
		}
		return p.compute(record, ended, err)
	})
}

func callRecovering(ctx context.Context, fn func(context.Context) error) error {
	return orPanicError(guard.Catch("", func() error { return fn(ctx) }))
}

// orPanicError converts a recovered panic to a [PanicError], and returns other errors unchanged.
func orPanicError(err error) error {
	if fault, ok := err.(*guard.Error); ok { //nolint:errorlint // a handler may wrap the fault of another function
		return &PanicError{Value: fault.Value, Stack: fault.Stack, function: fault.Function}
	}
	return err
}

// Wait returns the outcome for a handler that waits for its sub-handlers and is called again after the delay. If that would be too
// late, the handler fails now. The parameter record is the record before the attempt.
func (p Policy) Wait(record Record, now time.Time, delay time.Duration) Outcome {
	if limit := p.timeoutReached(record, now.Add(delay)); limit != "" {
		return Outcome{Err: &LimitError{Limit: limit}, Final: true, Attempted: true}
	}
	return Outcome{Waiting: true, Delay: delay}
}

// timeoutReached describes the timeout if an attempt at the given time would exceed it; otherwise it returns "".
func (p Policy) timeoutReached(record Record, at time.Time) string {
	if p.Timeout == nil || record.Started.IsZero() || at.Sub(record.Started) < *p.Timeout {
		return ""
	}
	return fmt.Sprintf("gave up because the next attempt would exceed the timeout of %s", *p.Timeout)
}

// limitReached describes the limit that forbids an attempt at the given time, or returns "".
func (p Policy) limitReached(record Record, at time.Time) string {
	// Started may come from a different clock, so the timeout alone must not prevent the first attempt.
	isFirst := record.Retries == 0 && !record.WaitsForSubs()
	if limit := p.timeoutReached(record, at); limit != "" && (!isFirst || *p.Timeout <= 0) {
		return limit
	}
	if p.Retries != nil && record.Retries >= *p.Retries {
		return fmt.Sprintf("gave up after %d attempts", record.Retries)
	}
	return ""
}

// storedError returns the error of the last attempt. It is temporary, and therefore [Expected], because it was already logged.
func storedError(record Record) error {
	if record.Message == "" {
		return nil
	}
	return &TemporaryError{Err: errors.New(record.Message)}
}

// Outcome returns the outcome of an attempt that ended at the given time with an error or nil. If BackoffFunc or a method of the error
// panics, the outcome has a [PanicError] and the delay [DefaultBackoff].
func (p Policy) Outcome(record Record, now time.Time, err error) Outcome {
	return p.recoverOutcome(record, now, func() Outcome { return p.compute(record, now, err) })
}

func (p Policy) recoverOutcome(record Record, now time.Time, compute func() Outcome) (out Outcome) {
	// Limit calls the error's method Error, which can panic, too.
	if err := guard.Catch("", func() error { out = compute(); out.Err = guard.ShortenError(out.Err); return nil }); err != nil {
		return p.retry(record, now, orPanicError(err), DefaultBackoff)
	}
	return out
}

func (p Policy) compute(record Record, now time.Time, err error) Outcome {
	class, delay := classify(err)
	switch {
	case err == nil:
		return Outcome{Final: true, Success: true, Attempted: true}
	case class == permanent:
		return Outcome{Err: err, Final: true, Attempted: true}
	case class == temporary:
		return p.retry(record, now, err, delay)
	case p.Errors == ErrorsIgnored:
		return Outcome{Err: err, Final: true, Success: true, Attempted: true}
	case p.Errors == ErrorsPermanent:
		return Outcome{Err: err, Final: true, Attempted: true}
	default:
		return p.retry(record, now, err, max(p.backoff(record, err), serverDelay(err)))
	}
}

func (p Policy) backoff(record Record, err error) time.Duration {
	switch {
	case p.BackoffFunc != nil:
		return max(0, p.BackoffFunc(record.Attempt(), err))
	case p.Backoff != nil:
		return max(0, *p.Backoff)
	default:
		return DefaultBackoff
	}
}

// serverDelay returns the delay that the API server asks for with Retry-After.
func serverDelay(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// retry returns the outcome of an attempt that will be retried. If a limit forbids the next attempt, the handler fails now instead of after
// the delay.
func (p Policy) retry(record Record, now time.Time, err error, delay time.Duration) Outcome {
	delay = min(delay, MaxDelay)
	next := record
	next.Retries++
	if limit := p.limitReached(next, now.Add(delay)); limit != "" {
		return Outcome{Err: &LimitError{Limit: limit, Err: err}, Final: true, Attempted: true}
	}
	return Outcome{Err: err, Delay: delay, Attempted: true}
}
