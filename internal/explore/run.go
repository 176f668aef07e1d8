package explore

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A Runner runs the story once, under the faults of a plan.
type Runner func(t *testing.T, plan Plan) *Run

// A TransportWrapper puts something around a server. It is called for each request.
type TransportWrapper func(http.RoundTripper) http.RoundTripper

// NewRunner makes a runner of a function that makes trials, as for kopftest.Check. The function wrap is called for each life of the operator, and
// what it returns stands between the operator and the server; nil: nothing does. Package kopftest sets this variable.
var NewRunner func(setup any, wrap func() TransportWrapper) Runner

// A Run is one run of a story.
type Run struct {
	// Writes, WatchEvents, Changes and Calls are in order, over all lives of the operator.
	Writes      []Write
	WatchEvents []WatchEvent
	Changes     []Change
	Calls       []Call
	// Snapshots are the states at rest.
	Snapshots []Snapshot
	// Starts is how often the operator was started.
	Starts int
	// LateWrites are the writes within the hour after the end of the story.
	LateWrites []string
	// Injected is how many faults of the plan have happened.
	Injected int
	// Problem is why the story has come to no end; empty: it has.
	Problem string
	// Findings are promises that were broken in this run, whatever happened in others.
	Findings []string
}

// A Position is a point in the order of things.
type Position struct {
	Changes int // in the store
	Calls   int // that have begun, and that have ended
}

// A Write is a request that changes something.
type Write struct {
	// Request is such as "patch widgets status".
	Request string
	// Object is such as "ns/one".
	Object string
	// Fields are groups of fields in the body, such as "finalizers" or "progress": see [FieldGroups].
	Fields []string
	// Before is when the server got it, and After when the server had done it.
	Before, After Position
	// Body is what was sent, for people.
	Body string
}

// A WatchEvent is what a watch has delivered.
type WatchEvent struct {
	// Watch is such as "widgets", or "widgets, metadata".
	Watch string
	// Object is such as "ns/one".
	Object string
}

// A Change is a new version of an object in the store, or its end.
type Change struct {
	Resource, Object string
	// State is a digest of all objects of the kinds that the operator watches, without their versions.
	State string
}

// A Call is a call of a handler for a cause, or of another one.
type Call struct {
	// Name is the same in each run for the same work: the handler, the reason, the object, and what has changed.
	Name string
	// Text is for people.
	Text string
	// RecordedBefore is how often the outcome of the same work was written before this call began.
	RecordedBefore int
	// Changes is how many there were when the call began.
	Changes int
}

// String lists the writes and the calls in order, for people.
func (r *Run) String() string {
	var out strings.Builder
	calls := r.Calls
	tell := func(until int) {
		for len(calls) > 0 && calls[0].Changes <= until {
			fmt.Fprintf(&out, "call: %s\n", calls[0].Text)
			calls = calls[1:]
		}
	}
	for i, w := range r.Writes {
		tell(w.Before.Changes)
		fmt.Fprintf(&out, "write %d: %s %s, changes %d to %d: %.1000s\n", i+1, w.Request, w.Object, w.Before.Changes, w.After.Changes, w.Body)
	}
	tell(len(r.Calls) + len(r.Changes) + 1<<20)
	return out.String()
}
