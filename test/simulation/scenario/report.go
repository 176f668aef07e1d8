package scenario

import (
	"fmt"
	"strings"
)

// Property is a property that must hold in every run.
type Property string

// The properties. Each has its own checks.
const (
	// NeverLost: before the engine stores a baseline, each matching handler has finished for that essence or a later one (B-01).
	NeverLost Property = "no change is lost"
	// NeverLostLists: NeverLost holds for the list that handlers also change.
	NeverLostLists Property = "no change to a list is lost"
	// NeverTwice: the engine does not call a handler again for a cause if its record is final.
	NeverTwice Property = "finished handlers are not repeated"
	// NeverStale: the engine calls no handler for a state before its own last write (B-10).
	NeverStale Property = "no attempt for an outdated state"
	// KeepsBackoff: the engine waits at least for the delay that a failing handler requests (B-11).
	KeepsBackoff Property = "delays are respected"
	// OwnEdits: a change of the object by a handler causes no update (B-13).
	OwnEdits Property = "own edits cause no updates"
	// KeepsEdits: the final object has the values that users have written.
	KeepsEdits Property = "edits by users are preserved"
	// Settles: the final object has a baseline equal to its essence and no records, or does not exist.
	Settles Property = "cycles finish"
	// Resumes: each operator process resumes each previously handled object once (B-12).
	Resumes Property = "objects are resumed once"
	// HoldsDeletion: an object with our finalizer is removed only after its delete handlers are done.
	HoldsDeletion Property = "deletion waits for its handlers"
	// NothingAfter: NeverStale holds for objects whose finalizer was removed.
	NothingAfter Property = "no attempt after the finalizer is removed"
	// KeepsLists: KeepsEdits holds for the list that handlers also change.
	KeepsLists Property = "lists are not overwritten"
	// DelaysOutlive: KeepsBackoff holds even if another cause has removed the record with the delay.
	DelaysOutlive Property = "delays are respected after other causes"
	// ResumesAgain: an operator process resumes an object only once, even if an update is reverted (B-12).
	ResumesAgain Property = "objects are resumed once despite reverted updates"
	// Leftovers: no record of a reverted change remains after its delay has expired. The engine does not read such records.
	Leftovers Property = "no record remains after its cause"
	// Runs: the operator does not end unexpectedly.
	Runs Property = "the operator runs"
)

// Violation is a violated property with a description.
type Violation struct {
	Property Property
	What     string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s", v.Property, v.What) }

// Report is the result of a run.
type Report struct {
	Plan       Plan
	Violations []Violation
	Log        string
	Calls      int // number of attempts
	Writes     int // number of accepted writes of the operator
}

// String returns the plan, the log and the violations.
func (r Report) String() string {
	var b strings.Builder
	b.WriteString(r.Plan.String() + r.Log + "\n")
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "VIOLATION: %s\n", v)
	}
	return b.String()
}
