package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A Plan describes a scenario: the handlers, the changes of objects and of the operator, and the network faults. The
// seed determines it.
type Plan struct {
	Seed       uint64
	Kind       Kind
	Lifecycle  string
	Checkpoint time.Duration
	Handlers   []Handler
	Objects    int
	Patient    bool // whether users wait until the operator has handled each change
	Lean       bool // whether the operator's caches are lean
	Steps      []Step
	Faults     Faults
}

// A Handler is one handler of the operator.
type Handler struct {
	ID       string
	Reasons  []kopf.Reason
	Optional bool
	Backoff  time.Duration
	Retries  int // maximum number of attempts; 0: no limit
	Errors   progress.ErrorMode
	Work     time.Duration // duration of an attempt
	Deaf     bool          // whether the handler ignores the cancellation of its context
	Edits    Edit          // change of the object by the handler
	Result   bool          // whether the handler sets a result when it succeeds
	FailRate float64
	Fails    int // maximum number of failed attempts for each object
}

// Edit is the change of the object that a handler makes in every attempt.
type Edit string

// The edits. Each handler has its own label, annotation or tag.
const (
	EditNothing    Edit = "nothing"
	EditLabel      Edit = "label"
	EditAnnotation Edit = "annotation"
	EditTags       Edit = "tags"
	EditStatus     Edit = "status"
)

// Step is one action, after a delay.
type Step struct {
	After  time.Duration
	Action Action
	Object int // index of the object, which is created if it does not exist
	Down   time.Duration
}

// Action is the action of a step.
type Action string

// The actions. The last four change the operator.
const (
	SetSize         Action = "set size"
	SetColor        Action = "set color"
	SetTier         Action = "set label"
	SetNote         Action = "set annotation"
	DropTier        Action = "drop label"
	AddTag          Action = "add tag"
	SetTwo          Action = "set size and label"
	SetStatus       Action = "set status" // a change outside of the essence
	TakeBack        Action = "revert the last edit"
	Ask             Action = "ask for a call" // of a handler
	Withdraw        Action = "withdraw a request"
	Delete          Action = "delete"
	Restart         Action = "stop the operator"
	Crash           Action = "crash the operator"
	CrashUnsent     Action = "crash the operator instead of its next write"
	CrashUnanswered Action = "crash the operator before it receives the response to its next write"
)

// Faults are the network faults until the end of the last step. Delays continue after it.
type Faults struct {
	Latency    time.Duration // maximum delay of a response
	Lag        time.Duration // maximum delay of a watch event
	Conflict   float64       // share of patches with 409
	Failing    float64       // share of patches with 500
	Busy       float64       // share of patches with 429
	Lost       float64       // share of patches that succeed without a response
	Unreadable float64       // share of reads of single objects with 500
	Break      float64       // share of events after which the watch ends
	Expired    float64       // share of watches with 410, after which the operator must list again
}

const defaultCheckpoint = 100 * time.Millisecond // default of kopf.WithCheckpoint

// NewPlan generates a plan for some objects. The tick is its unit of time.
func NewPlan(seed uint64, tick time.Duration, objects int) Plan {
	d := generator{rand.New(rand.NewPCG(seed, 0)), tick}
	p := Plan{
		Seed: seed, Objects: objects,
		Kind:       pick(d, Kinds()...),
		Lifecycle:  pick(d, "all", "all", "all", "one by one", "asap", "shuffled", "randomized"),
		Checkpoint: pick(d, 0, defaultCheckpoint, defaultCheckpoint, time.Hour),
	}
	if objects == 0 {
		p.Objects = 1 + d.IntN(2)
	}
	for i := range 3 + d.IntN(3) {
		p.Handlers = append(p.Handlers, d.handler(i))
	}
	p.Handlers[0].Reasons = withUpdate(p.Handlers[0].Reasons) // without an update handler, the changes would have no effect
	for range p.Objects * (5 + d.IntN(11)) {
		p.Steps = append(p.Steps, d.step(p.Objects))
	}
	for range d.IntN(4) {
		at := d.IntN(len(p.Steps) + 1)
		p.Steps = append(p.Steps[:at], append([]Step{d.failure()}, p.Steps[at:]...)...)
	}
	if d.chance(0.8) {
		p.Faults = d.faults()
	}
	p.Patient, p.Lean = d.chance(0.2), d.chance(0.3)
	return p
}

// generator is the random source of a plan.
type generator struct {
	*rand.Rand
	tick time.Duration
}

func (d generator) chance(p float64) bool { return d.Float64() < p }

// ticks returns a random time of up to most ticks. Most times are whole ticks, so that events coincide.
func (d generator) ticks(most int) time.Duration {
	whole := time.Duration(d.IntN(most+1)) * d.tick
	if d.chance(0.3) {
		whole += time.Duration(d.Int64N(int64(d.tick)))
	}
	return whole
}

func pick[T any](d generator, from ...T) T { return from[d.IntN(len(from))] }

func (d generator) handler(i int) Handler {
	h := Handler{
		ID: fmt.Sprintf("h%d", i+1),
		Reasons: pick(d,
			[]kopf.Reason{kopf.ReasonCreate},
			[]kopf.Reason{kopf.ReasonUpdate},
			[]kopf.Reason{kopf.ReasonUpdate},
			[]kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate},
			[]kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate},
			[]kopf.Reason{kopf.ReasonDelete},
			[]kopf.Reason{kopf.ReasonResume},
			[]kopf.Reason{kopf.ReasonCreate, kopf.ReasonResume},
			[]kopf.Reason{kopf.ReasonUpdate, kopf.ReasonResume},
			[]kopf.Reason{kopf.ReasonUpdate, kopf.ReasonDelete},
			[]kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonDelete, kopf.ReasonResume},
		),
		Backoff: d.tick + d.ticks(20),
		Edits:   pick(d, EditNothing, EditNothing, EditNothing, EditLabel, EditAnnotation, EditTags, EditStatus),
		Result:  d.chance(0.2),
		Deaf:    d.chance(0.3),
	}
	h.Optional = len(h.Reasons) == 1 && h.Reasons[0] == kopf.ReasonDelete && d.chance(0.3)
	if d.chance(0.5) {
		h.Work = d.ticks(3)
	}
	if d.chance(0.6) {
		h.FailRate, h.Fails = 0.2+d.Float64()*0.6, 1+d.IntN(6)
	}
	if d.chance(0.2) {
		h.Retries = 1 + d.IntN(3)
	}
	if d.chance(0.2) {
		h.Errors = pick(d, progress.ErrorsPermanent, progress.ErrorsIgnored)
	}
	return h
}

func withUpdate(reasons []kopf.Reason) []kopf.Reason {
	if slices.Contains(reasons, kopf.ReasonUpdate) {
		return reasons
	}
	return append([]kopf.Reason{kopf.ReasonUpdate}, reasons...)
}

func (d generator) step(objects int) Step {
	return Step{
		After: pick(d, 0, d.ticks(1), d.ticks(5), d.ticks(20)),
		Action: pick(d, SetSize, SetSize, SetColor, SetColor, SetTier, SetNote, SetTwo, DropTier, AddTag, SetStatus,
			TakeBack, TakeBack, TakeBack, Ask, Ask, Withdraw, pick(d, SetSize, Delete)),
		Object: d.IntN(objects),
	}
}

func (d generator) failure() Step {
	return Step{
		After:  d.ticks(10),
		Action: pick(d, Restart, Crash, CrashUnsent, CrashUnanswered),
		Down:   pick(d, 0, d.ticks(5), d.ticks(40)),
	}
}

func (d generator) faults() Faults {
	some := func(p, most float64) float64 {
		if !d.chance(p) {
			return 0
		}
		return d.Float64() * most
	}
	return Faults{
		Latency: pick(d, 0, d.ticks(1)/10), Lag: pick(d, 0, 0, d.ticks(2), d.ticks(15)),
		Conflict: some(0.4, 0.4), Failing: some(0.4, 0.4), Busy: some(0.2, 0.3), Lost: some(0.4, 0.4),
		Unreadable: some(0.2, 0.5), Break: some(0.3, 0.2), Expired: some(0.3, 0.5),
	}
}

// String returns the plan for the log of a failure.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d %s, lifecycle %q, checkpoint %s, patient users: %t, lean caches: %t\n",
		p.Seed, p.Objects, p.Kind.Name, p.Lifecycle, p.Checkpoint, p.Patient, p.Lean)
	for _, h := range p.Handlers {
		fmt.Fprintf(&b, "  %+v\n", h)
	}
	fmt.Fprintf(&b, "  %+v\n", p.Faults)
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "  %2d: after %s, %s", i, s.After, s.Action)
		if s.Action.concernsOperator() {
			fmt.Fprintf(&b, ", down for %s\n", s.Down)
		} else {
			fmt.Fprintf(&b, " of %s\n", nameOf(s.Object))
		}
	}
	return b.String()
}

func (a Action) concernsOperator() bool {
	return a == Restart || a == Crash || a == CrashUnsent || a == CrashUnanswered
}

func nameOf(object int) string { return fmt.Sprintf("o%d", object+1) }
