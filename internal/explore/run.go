package explore

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A Runner runs the scenario once under the faults of a plan.
type Runner func(t *testing.T, plan Plan) *Run

// A TransportWrapper wraps one of the operator's transports.
type TransportWrapper func(http.RoundTripper) http.RoundTripper

// NewRunner returns a runner for a setup function, which has the same type as for kopftest.Check. Whenever the operator starts, the runner
// calls wrap and wraps the operator's transports with the result. wrap may be nil. Package kopftest sets this variable.
var NewRunner func(setup any, wrap func() TransportWrapper) Runner

// A Run is the record of one run of a scenario.
type Run struct {
	// Writes, WatchEvents, Changes and Calls are in order, across all starts of the operator. Only the reference run has Changes.
	Writes      []Write
	WatchEvents []WatchEvent
	Changes     []StoreChange
	Calls       []Call
	// QuietStates are the states after each step, once the operator is quiet. The first element is the state before the first step.
	QuietStates []QuietState
	// Starts is how often the operator started.
	Starts int
	// LateWrites are the writes in the hour after the last step.
	LateWrites []string
	// Injected is how many of the plan's faults occurred.
	Injected int
	// Problem says why the run ended early. It is empty if the run was complete.
	Problem string
	// Findings describe violations that are visible without a comparison to the reference run.
	Findings []string
}

// A Moment is a point in a run, given by how many changes and calls came before it.
type Moment struct {
	Changes int // changes in the store
	Calls   int // started calls plus ended calls
}

// A Write is a request of the operator that isn't a read.
type Write struct {
	// Request is the verb and the resource, for example "patch widgets status".
	Request string
	// Object is the namespace and name, for example "ns/one".
	Object string
	// Fields are the groups of fields in the body, such as "finalizers" or "progress". See [WrittenFieldGroups].
	Fields []string
	// Before is the moment before the operator sent the request, and After the moment after the server's response. They are equal if the
	// server didn't handle the request.
	Before, After Moment
	// Body is the request body, for messages.
	Body string
}

// A WatchEvent is an event that the server sent to one of the operator's watches after the initial list.
type WatchEvent struct {
	// Watch is the watched resource, for example "widgets", or "widgets, metadata" for a watch of the metadata alone.
	Watch string
	// Object is the namespace and name, for example "ns/one".
	Object string
}

// A StoreChange is a new version of an object in the store, or its deletion.
type StoreChange struct {
	Resource, Object string
	// State identifies the state of all objects of the watched kinds, without their versions.
	State string
}

// A Call is one attempt of a handler.
type Call struct {
	// Name identifies the same call in all runs. It contains the handler, the reason, the object, and the object's changes.
	Name string
	// Text describes the call in messages.
	Text string
	// RecordedBefore is how many outcomes of calls with this name were written before this call started.
	RecordedBefore int
	// Changes is how many changes the store had when the call started.
	Changes int
}

// String lists the writes and the calls in order, for messages.
func (r *Run) String() string {
	var out strings.Builder
	calls := r.Calls
	printCalls := func(upTo int) {
		for len(calls) > 0 && calls[0].Changes <= upTo {
			fmt.Fprintf(&out, "call: %s\n", calls[0].Text)
			calls = calls[1:]
		}
	}
	for i, w := range r.Writes {
		printCalls(w.Before.Changes)
		fmt.Fprintf(&out, "write %d: %s %s, changes %d to %d: %.1000s\n", i+1, w.Request, w.Object, w.Before.Changes, w.After.Changes, w.Body)
	}
	printCalls(len(r.Calls) + len(r.Changes) + 1<<20)
	return out.String()
}
