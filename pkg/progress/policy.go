package progress

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// DefaultBackoff is how long after an unknown error the next attempt is made.
//
// kopf: settings.execution.default_backoff.
const DefaultBackoff = time.Minute

// ErrorMode says what an unknown error means: one that is neither temporary nor permanent by its type.
//
// kopf: errors=ErrorsMode....
type ErrorMode int

const (
	// ErrorsTemporary calls the handler again after its backoff. The default.
	ErrorsTemporary ErrorMode = iota
	// ErrorsPermanent takes the handler for failed.
	ErrorsPermanent
	// ErrorsIgnored takes the handler for done, after logging the error.
	ErrorsIgnored
)

// An Attempt tells a handler which of its attempts is being made. It survives restarts
// if its [Record] does.
type Attempt struct {
	// Number of the attempt; 0 is the first. kopf: retry.
	Number int
	// Started is when the handler was selected for this cause. kopf: started.
	Started time.Time
	// Last is the text of the previous attempt's error, cut at 1024 bytes; empty if there was none.
	Last string
}

// Runtime is how long ago the handler was selected for this cause. kopf: runtime.
func (a Attempt) Runtime() time.Duration { return time.Since(a.Started) }

// A Policy says how often, how long, and at what pace a handler is tried. The zero value tries
// for ever, with [DefaultBackoff] between the attempts.
type Policy struct {
	// Retries is the greatest number of attempts; nil: no limit; 0: not even one. kopf: retries=.
	Retries *int
	// Timeout is for how long after it was selected a handler is tried; nil: no limit. It is
	// looked at between attempts, and does not interrupt one. Each handler is called once, unless the
	// timeout is 0. kopf: timeout=.
	Timeout *time.Duration
	// Backoff is the pause after an unknown error; nil: [DefaultBackoff]. If the error is an answer of
	// the API server that asks for a longer one, that counts. kopf: backoff=.
	Backoff *time.Duration
	// BackoffFunc computes the pause instead, from the attempt that failed and its error. A longer one that the API server asks for
	// counts here, too.
	BackoffFunc func(a Attempt, err error) time.Duration
	// AttemptTimeout is the deadline of one attempt's context; 0: none.
	AttemptTimeout time.Duration
	// Errors says what an unknown error means. kopf: errors=.
	Errors ErrorMode
}

// An Outcome is how one attempt ended, and what follows from it.
type Outcome struct {
	// Err is the error of the attempt; nil if it returned none. With [ErrorsIgnored] there may be one with Success.
	Err error
	// Final: there will be no further attempt. Otherwise the next one comes after Delay.
	Final bool
	Delay time.Duration
	// Success: the handler is done. Only final outcomes are.
	Success bool
	// Attempted is false when the handler was given up without calling it once more, and when it was Interrupted.
	Attempted bool
	// Waiting: the handler has done its part and waits for its sub-handlers. That is no attempt that
	// counts, and no error.
	Waiting bool
	// Interrupted: the attempt was cut off from outside (the process is stopping) and does not
	// count. It will be made again.
	Interrupted bool
}

// Attempt makes one attempt at a function: checks the limits, calls it, catches a panic, and tells
// what follows. The time is the one at which the attempt begins.
func (p Policy) Attempt(ctx context.Context, record Record, now time.Time, fn func(context.Context) error) Outcome {
	if limit := p.exhausted(record, now); limit != "" {
		return Outcome{Err: &LimitError{Limit: limit, Err: remembered(record)}, Final: true}
	}
	attempt := ctx
	if p.AttemptTimeout > 0 {
		var cancel context.CancelFunc
		attempt, cancel = context.WithTimeout(ctx, p.AttemptTimeout)
		defer cancel()
	}
	began := time.Now()
	err := recovered(attempt, fn)
	ended := now.Add(time.Since(began))
	return p.guarded(record, ended, func() Outcome {
		if err != nil && errors.Is(ctx.Err(), context.Canceled) && !Expected(err) {
			return Outcome{Err: err, Interrupted: true}
		}
		return p.judge(record, ended, err)
	})
}

func recovered(ctx context.Context, fn func(context.Context) error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	err = fn(ctx)
	if v := reflect.ValueOf(err); v.IsValid() && v.Kind() == reflect.Pointer && v.IsNil() {
		// Its methods would panic. To Go it is an error, so it is no success.
		return fmt.Errorf("the handler returned a nil %T as its error: declare the variable as error, or return nil for success", err)
	}
	return err
}

// exhausted says which limit forbids an attempt at the given time; empty if none does.
func (p Policy) exhausted(record Record, at time.Time) string {
	// Another clock may have written Started: alone, it is no reason to give up a handler that was never called.
	counts := p.Timeout != nil && !record.Started.IsZero() && (record.Retries > 0 || *p.Timeout <= 0)
	if counts && at.Sub(record.Started) >= *p.Timeout {
		return fmt.Sprintf("gave up, as another attempt would exceed the timeout of %s", *p.Timeout)
	}
	if p.Retries != nil && record.Retries >= *p.Retries {
		return fmt.Sprintf("gave up after %d attempts", record.Retries)
	}
	return ""
}

// remembered is the error of the last attempt, which may have been made by another process: it was
// told then, and is no news.
func remembered(record Record) error {
	if record.Message == "" {
		return nil
	}
	return &TemporaryError{Err: errors.New(record.Message)}
}

// Outcome judges an error, nil included, of an attempt that ended at the given time. If BackoffFunc or a method of the
// error panics, that is the error, and the pause is [DefaultBackoff].
func (p Policy) Outcome(record Record, now time.Time, err error) Outcome {
	return p.guarded(record, now, func() Outcome { return p.judge(record, now, err) })
}

func (p Policy) guarded(record Record, now time.Time, judge func() Outcome) (out Outcome) {
	defer func() {
		if value := recover(); value != nil {
			out = p.again(record, now, &PanicError{Value: value, Stack: debug.Stack()}, DefaultBackoff)
		}
	}()
	return judge()
}

func (p Policy) judge(record Record, now time.Time, err error) Outcome {
	said, delay := classify(err)
	switch {
	case err == nil:
		return Outcome{Final: true, Success: true, Attempted: true}
	case said == permanent:
		return Outcome{Err: err, Final: true, Attempted: true}
	case said == temporary:
		return p.again(record, now, err, delay)
	case p.Errors == ErrorsIgnored:
		return Outcome{Err: err, Final: true, Success: true, Attempted: true}
	case p.Errors == ErrorsPermanent:
		return Outcome{Err: err, Final: true, Attempted: true}
	default:
		return p.again(record, now, err, max(p.backoff(record, err), suggested(err)))
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

// suggested is the pause that the API server asks for in an answer (its Retry-After).
func suggested(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// again looks ahead: an attempt that the limits will not allow is not waited for.
func (p Policy) again(record Record, now time.Time, err error, delay time.Duration) Outcome {
	next := record
	next.Retries++
	if limit := p.exhausted(next, now.Add(delay)); limit != "" {
		return Outcome{Err: &LimitError{Limit: limit, Err: err}, Final: true, Attempted: true}
	}
	return Outcome{Err: err, Delay: delay, Attempted: true}
}
