package explore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Kind is the kind of a [Fault].
type Kind string

// The kinds of faults.
const (
	// CrashBefore kills the operator before write At reaches the server, and restarts it.
	CrashBefore Kind = "crash-before"
	// CrashAfter kills the operator after the server has handled write At, but before the response arrives, and restarts it.
	CrashAfter Kind = "crash-after"
	// Lost drops the response to write At after the server has handled it.
	Lost Kind = "lost"
	// Unavailable rejects write At with status 503.
	Unavailable Kind = "unavailable"
	// Failed rejects write At with status 500.
	Failed Kind = "failed"
	// Conflict rejects write At with status 409.
	Conflict Kind = "conflict"
	// Unseen delays watch event At until the next event of the same object arrives, for at most 20 seconds, and merges the two.
	Unseen Kind = "unseen"
	// Shutdown stops the operator during call At, as a signal does, and restarts it.
	Shutdown Kind = "shutdown"
)

var kinds = []Kind{CrashBefore, CrashAfter, Lost, Unavailable, Failed, Conflict, Unseen, Shutdown}

// crashes reports whether the fault kills the operator without a graceful shutdown.
func (k Kind) crashes() bool { return k == CrashBefore || k == CrashAfter }

// affectsWrites reports whether the fault is injected at a write.
func (k Kind) affectsWrites() bool { return k != Unseen && k != Shutdown }

// A Fault is one fault at one point of a scenario.
type Fault struct {
	Kind Kind
	// At is the number of the write, watch event, or call, counted from 1 over all starts of the operator.
	At int
	// Stale makes the first list after a crash as old as change AsOf. AsOf 0 means the beginning of the scenario. Other kinds of faults
	// ignore Stale.
	Stale bool
	AsOf  int
}

// String returns the form that [Parse] reads: "crash-after@3", "crash-after@3/list@1".
func (f Fault) String() string {
	text := fmt.Sprintf("%s@%d", f.Kind, f.At)
	if f.Stale {
		text += fmt.Sprintf("/list@%d", f.AsOf)
	}
	return text
}

// A Plan holds the faults of one run. The empty plan is the reference run.
type Plan []Fault

// String joins the faults with "+".
func (p Plan) String() string {
	var texts []string
	for _, f := range p {
		texts = append(texts, f.String())
	}
	return strings.Join(texts, "+")
}

// Parse reads what [Plan.String] returns. An empty text is the reference run.
func Parse(text string) (plan Plan, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, "+") {
		head, list, stale := strings.Cut(part, "/list@")
		kind, at, found := strings.Cut(head, "@")
		f := Fault{Kind: Kind(kind), Stale: stale}
		if !found || !slices.Contains(kinds, f.Kind) {
			return nil, fmt.Errorf("plan %q: unknown fault %q: use one of %v, followed by @ and a number", text, part, kinds)
		}
		if f.At, err = strconv.Atoi(at); err != nil || f.At < 1 {
			return nil, fmt.Errorf("plan %q: fault %q must have a number above 0", text, part)
		}
		if stale {
			if f.AsOf, err = strconv.Atoi(list); err != nil || f.AsOf < 0 || !f.Kind.crashes() {
				return nil, fmt.Errorf("plan %q: fault %q must be a crash, and /list@ must be followed by the number of a change", text, part)
			}
		}
		plan = append(plan, f)
	}
	return plan, nil
}
