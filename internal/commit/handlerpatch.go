package commit

import (
	"errors"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// HandlerPatch contains one attempt of a handler, and its changes.
type HandlerPatch struct {
	ID      string
	Policy  progress.Policy
	Before  progress.Record // the record before the attempt
	Outcome progress.Outcome
	// Patch contains the changes and the result.
	Patch patch.MergePatch
	// Untyped is true if Patch may have fields that the Go type lacks, such as a result.
	Untyped bool
	// Base is the JSON form of the object that the handler has received.
	Base map[string]any
	// Report is true if Patch contains the conditions that report handlers.
	Report bool
	// Open is true until the attempt and the calls of its sub-handlers have ended. Until then, the outcome is unknown.
	Open bool
	// Rejection is the error with which the API server rejected Patch while Open was true.
	Rejection error
	// Repeat makes a handler without a record on the object due again, because Patch is not written. It is optional.
	Repeat func()
	// Fail records the outcome of a handler without a record on the object, after the API server has rejected Patch. It is optional.
	Fail func()

	singleRequest *patch.Change    // the request with this patch alone; nil if there is none
	written       patch.MergePatch // the part that was written before Patch, or before its rejection
}

// RejectedOutcome returns the outcome of an attempt whose patch was rejected while its sub-handlers were being called.
func (p *HandlerPatch) RejectedOutcome(at time.Time) progress.Outcome {
	if isContested(p.Rejection) {
		return progress.Outcome{Waiting: true} // the attempt does not count
	}
	return p.Policy.Outcome(p.Before, at, p.Rejection)
}

// IsRejected reports whether a repetition of the request cannot succeed.
func IsRejected(err error) bool {
	_, rejected := errors.AsType[*patch.RejectedError](err)
	return rejected || isContested(err)
}

// isContested reports whether a write has failed because another client has changed the same list.
func isContested(err error) bool {
	_, contested := errors.AsType[*patch.ListConflictError](err)
	return contested
}
