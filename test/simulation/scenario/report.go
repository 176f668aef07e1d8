package scenario

import (
	"fmt"
	"strings"
)

// A Property is one of those that every run must have.
type Property string

// The properties. Each can be looked at by itself.
const (
	// NeverLost: what is remembered as handled was seen by every handler that it concerns (B-01).
	NeverLost Property = "no change is lost"
	// NeverLostLists is NeverLost where the list is concerned that handlers change, too.
	NeverLostLists Property = "no change of a list is lost"
	// NeverTwice: a handler that is recorded as done is not called again for its cause.
	NeverTwice Property = "what is done is not done again"
	// NeverStale: no handler is called for what an object was before the operator's own last write (B-10).
	NeverStale Property = "no decision on an old cache"
	// KeepsBackoff: the attempts of a failing handler are not closer to each other than it wants (B-11).
	KeepsBackoff Property = "delays are kept"
	// OwnEdits: what a handler changes in its object does not come back as an update (B-13).
	OwnEdits Property = "own edits are no updates"
	// KeepsEdits: what users have written is on the object in the end.
	KeepsEdits Property = "edits of others stay"
	// Settles: in the end an object has a baseline equal to its essence and no records, or is gone.
	Settles Property = "objects come to rest"
	// Resumes: each object that was handled before is resumed once in the life of an operator (B-12).
	Resumes Property = "objects resume once"
	// HoldsDeletion: an object that is held goes only when its delete handlers are done.
	HoldsDeletion Property = "deletion waits for its handlers"
	// NothingAfter is NeverStale once the finalizer was taken off a deleted object.
	NothingAfter Property = "nothing is called after the release"
	// KeepsLists is KeepsEdits where the list is concerned that handlers change, too.
	KeepsLists Property = "lists are not overwritten"
	// DelaysOutlive is KeepsBackoff where the record with the delay went with another cause.
	DelaysOutlive Property = "delays outlive other causes"
	// ResumesAgain is Resumes where an update came in between, and was taken back.
	ResumesAgain Property = "objects resume once, whatever comes in between"
	// Leftovers is Settles where nothing but the record of a delay that is over is left of a change that was taken back.
	Leftovers Property = "no record outlives its cause"
	// Runs: the operator does not end by itself.
	Runs Property = "the operator runs"
)

// A Violation is a property that a run did not have, and where.
type Violation struct {
	Property Property
	What     string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s", v.Property, v.What) }

// A Report is what came out of a run.
type Report struct {
	Plan       Plan
	Violations []Violation
	Log        string
	Calls      int // of handlers
	Writes     int // of the operator, that were accepted
}

// String is the whole story, to find out what went wrong.
func (r Report) String() string {
	var b strings.Builder
	b.WriteString(r.Plan.String() + r.Log + "\n")
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "VIOLATION: %s\n", v)
	}
	return b.String()
}
