package scenario

import (
	"fmt"
	"strings"
)

// A Property must hold in every run.
type Property string

// The properties. Each has its own checks.
const (
	// NeverLost: each matching handler has seen the states that are stored as handled (B-01).
	NeverLost Property = "no change is lost"
	// NeverLostLists is NeverLost for the list that handlers change, too.
	NeverLostLists Property = "no change of a list is lost"
	// NeverTwice: a handler that is recorded as done is not called again for its cause.
	NeverTwice Property = "what is done is not done again"
	// NeverStale: no handler is called for a state before the operator's own last write (B-10).
	NeverStale Property = "no decision on an old cache"
	// KeepsBackoff: the attempts of a failing handler have at least the delay between them that it requests (B-11).
	KeepsBackoff Property = "delays are kept"
	// OwnEdits: a change of the object by a handler is no update (B-13).
	OwnEdits Property = "own edits are no updates"
	// KeepsEdits: at the end, the object has the values that users have written.
	KeepsEdits Property = "edits of others stay"
	// Settles: at the end, an object has a baseline equal to its essence and no records, or does not exist.
	Settles Property = "objects come to rest"
	// Resumes: each object that was handled before is resumed once in the life of an operator (B-12).
	Resumes Property = "objects resume once"
	// HoldsDeletion: an object with our finalizer is removed only when its delete handlers are done.
	HoldsDeletion Property = "deletion waits for its handlers"
	// NothingAfter is NeverStale after the finalizer of a deleted object was removed.
	NothingAfter Property = "nothing is called after the release"
	// KeepsLists is KeepsEdits for the list that handlers change, too.
	KeepsLists Property = "lists are not overwritten"
	// DelaysOutlive is KeepsBackoff if the record with the delay was removed by another cause.
	DelaysOutlive Property = "delays outlive other causes"
	// ResumesAgain is Resumes if a reverted update came in between.
	ResumesAgain Property = "objects resume once, whatever comes in between"
	// Leftovers is Settles if only the record of an expired delay of a reverted change remains.
	Leftovers Property = "no record outlives its cause"
	// Runs: the operator does not end unexpectedly.
	Runs Property = "the operator runs"
)

// A Violation is a violated property with its place.
type Violation struct {
	Property Property
	What     string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s", v.Property, v.What) }

// A Report is the result of a run.
type Report struct {
	Plan       Plan
	Violations []Violation
	Log        string
	Calls      int // number of calls of handlers
	Writes     int // number of accepted writes of the operator
}

// String returns the whole log.
func (r Report) String() string {
	var b strings.Builder
	b.WriteString(r.Plan.String() + r.Log + "\n")
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "VIOLATION: %s\n", v)
	}
	return b.String()
}
