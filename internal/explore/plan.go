package explore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Kind is what happens in a [Fault].
type Kind string

// The kinds of faults.
const (
	// CrashBefore ends the operator before write At reaches the server, and starts it again.
	CrashBefore Kind = "crash-before"
	// CrashAfter ends the operator after the server has done write At, and before the answer.
	CrashAfter Kind = "crash-after"
	// Lost drops the answer to write At after the server has done it.
	Lost Kind = "lost"
	// Unavailable has write At refused with 503, once.
	Unavailable Kind = "unavailable"
	// Failed has write At refused with 500, once.
	Failed Kind = "failed"
	// Conflict has write At refused with 409, once.
	Conflict Kind = "conflict"
	// Unseen holds notice At back until the next notice of the same object, into which it is merged.
	Unseen Kind = "unseen"
	// Shutdown ends the operator in an orderly way while call At is under way, and starts it again.
	Shutdown Kind = "shutdown"
)

var kinds = []Kind{CrashBefore, CrashAfter, Lost, Unavailable, Failed, Conflict, Unseen, Shutdown}

// crashes reports whether the operator ends without a shutdown.
func (k Kind) crashes() bool { return k == CrashBefore || k == CrashAfter }

// affectsWrites reports whether the fault happens to a write.
func (k Kind) affectsWrites() bool { return k != Unseen && k != Shutdown }

// A Fault is one thing that happens.
type Fault struct {
	Kind Kind
	// At is the number of the write, the notice, or the call, over all lives of the operator; counted from 1.
	At int
	// Stale: after the crash, the first list of the operator is as old as change AsOf; 0: as old as the beginning of the story.
	Stale bool
	AsOf  int
}

// String has the form that [Parse] reads: "crash-after@3", "crash-after@3/list@1".
func (f Fault) String() string {
	text := fmt.Sprintf("%s@%d", f.Kind, f.At)
	if f.Stale {
		text += fmt.Sprintf("/list@%d", f.AsOf)
	}
	return text
}

// A Plan is the faults of one run; without any, it is the reference run.
type Plan []Fault

// String joins the faults with "+".
func (p Plan) String() string {
	var texts []string
	for _, f := range p {
		texts = append(texts, f.String())
	}
	return strings.Join(texts, "+")
}

// Parse reads what [Plan.String] has written. An empty text is the reference run.
func Parse(text string) (plan Plan, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, "+") {
		head, list, stale := strings.Cut(part, "/list@")
		kind, at, found := strings.Cut(head, "@")
		f := Fault{Kind: Kind(kind), Stale: stale}
		if !found || !slices.Contains(kinds, f.Kind) {
			return nil, fmt.Errorf("the plan %q has an unknown fault %q: known are %v, each with @ and a number", text, part, kinds)
		}
		if f.At, err = strconv.Atoi(at); err != nil || f.At < 1 {
			return nil, fmt.Errorf("the fault %q in the plan %q must have a number above 0", part, text)
		}
		if stale {
			if f.AsOf, err = strconv.Atoi(list); err != nil || f.AsOf < 0 || !f.Kind.crashes() {
				return nil, fmt.Errorf("the fault %q in the plan %q must be a crash, with the number of a change after /list@", part, text)
			}
		}
		plan = append(plan, f)
	}
	return plan, nil
}
