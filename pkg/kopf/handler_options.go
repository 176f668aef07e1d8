package kopf

import (
	"fmt"
	"slices"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
)

// A HandlerOption is one of kopf's keywords for a handler.
type HandlerOption func(*declaration)

// A declaration is a handler as it is being declared.
type declaration struct {
	engine.Handler
	id       string
	method   string // by which it was declared
	mistakes []error
}

func (d *declaration) mistakef(format string, args ...any) {
	d.mistakes = append(d.mistakes, fmt.Errorf(format, args...))
}

func (d *declaration) duration(option string, value time.Duration) {
	if value < 0 {
		d.mistakef("%s is negative (%s): use a duration of zero or more", option, value)
	}
}

func (d *declaration) is(reason Reason) bool { return slices.Contains(d.Reasons, string(reason)) }

// Retries is the greatest number of attempts; then the handler has failed. Default: no limit.
//
// kopf: retries=.
func Retries(n int) HandlerOption {
	return func(d *declaration) {
		if n < 0 {
			d.mistakef("Retries is negative (%d): leave the option out for no limit", n)
		}
		d.Policy.Retries = &n
	}
}

// Timeout is for how long after its selection a handler is tried; then it has failed. It does not
// interrupt an attempt: see [AttemptTimeout]. Default: no limit.
//
// kopf: timeout=.
func Timeout(timeout time.Duration) HandlerOption {
	return func(d *declaration) {
		d.duration("Timeout", timeout)
		d.Policy.Timeout = &timeout
	}
}

// AttemptTimeout is the deadline of one attempt, on its context. Default: none.
func AttemptTimeout(timeout time.Duration) HandlerOption {
	return func(d *declaration) {
		d.duration("AttemptTimeout", timeout)
		d.Policy.AttemptTimeout = timeout
	}
}

// Backoff is the pause after an unknown error, before the next attempt. Default: one minute.
//
// kopf: backoff=.
func Backoff(pause time.Duration) HandlerOption {
	return func(d *declaration) {
		d.duration("Backoff", pause)
		d.Policy.Backoff = &pause
	}
}

// BackoffFunc computes the pause after an unknown error from the attempt that failed, and its error.
// A negative result means zero.
func BackoffFunc(fn func(a Attempt, err error) time.Duration) HandlerOption {
	return func(d *declaration) {
		if fn == nil {
			d.mistakef("BackoffFunc is nil: give it a function, or use Backoff")
		}
		d.Policy.BackoffFunc = fn
	}
}

// Exponential is a function for [BackoffFunc]: the base, doubled with every attempt, up to the limit.
func Exponential(base, limit time.Duration) func(Attempt, error) time.Duration {
	return func(a Attempt, _ error) time.Duration {
		pause := base
		for range a.Number {
			if pause *= 2; pause >= limit || pause <= 0 {
				return limit
			}
		}
		return min(pause, limit)
	}
}

// Errors says what an error means that is neither temporary nor permanent. Default: [ErrorsTemporary].
//
// kopf: errors=.
func Errors(mode ErrorMode) HandlerOption {
	return func(d *declaration) {
		if mode < ErrorsTemporary || mode > ErrorsIgnored {
			d.mistakef("Errors(%d) is no mode: use ErrorsTemporary, ErrorsPermanent or ErrorsIgnored", mode)
		}
		d.Policy.Errors = mode
	}
}

// Optional lets the object go without waiting for this delete handler: it needs no finalizer. It is
// called, once, as well as it goes, when a deletion is seen. For delete handlers only.
//
// kopf: optional=True.
func Optional() HandlerOption {
	return func(d *declaration) {
		if !d.is(ReasonDelete) {
			d.mistakef("Optional is for delete handlers: this one is never called for a deletion")
		}
		d.Criteria.Optional = true
	}
}

// EvenIfDeleted calls a resume handler also for objects that are being deleted when the operator
// starts. For resume handlers only.
//
// kopf: deleted=True.
func EvenIfDeleted() HandlerOption {
	return func(d *declaration) {
		if !d.is(ReasonResume) {
			d.mistakef("EvenIfDeleted is for resume handlers: this one never resumes")
		}
		d.Criteria.EvenIfDeleted = true
	}
}
