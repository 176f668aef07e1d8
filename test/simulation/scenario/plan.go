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

// A Plan is a scenario before it is run: who handles what in which way, what happens to the objects and
// to the operator, and what goes wrong on the wire. It follows from the seed alone.
type Plan struct {
	Seed       uint64
	Kind       Kind
	Lifecycle  string
	Checkpoint time.Duration
	Handlers   []Handler
	Objects    int
	Patient    bool // users change nothing while something is being handled
	Steps      []Step
	Faults     Faults
}

// A Handler is one handler of the operator.
type Handler struct {
	ID       string
	Reasons  []kopf.Reason
	Optional bool
	Backoff  time.Duration
	Retries  int // 0: no limit
	Errors   progress.ErrorMode
	Work     time.Duration // that an attempt takes
	Deaf     bool          // it goes on when its context ends
	Edits    Edit          // what it changes in its object
	Result   bool          // it sets a result when it succeeds
	FailRate float64
	Fails    int // of the attempts for one object, at the most
}

// An Edit is what a handler changes in its object, in every attempt.
type Edit string

// The edits: each handler has a label, an annotation, or a tag in the list of tags of its own.
const (
	EditNothing    Edit = "nothing"
	EditLabel      Edit = "label"
	EditAnnotation Edit = "annotation"
	EditTags       Edit = "tags"
	EditStatus     Edit = "status"
)

// A Step is one thing that happens, some time after the one before it.
type Step struct {
	After  time.Duration
	Action Action
	Object int // for those that concern one; it is created if there is none
	Down   time.Duration
}

// An Action is what happens in a step.
type Action string

// The actions. The last ones concern the operator.
const (
	SetSize     Action = "set size"
	SetColor    Action = "set color"
	SetTier     Action = "set label"
	SetNote     Action = "set annotation"
	DropTier    Action = "drop label"
	AddTag      Action = "add tag"
	SetTwo      Action = "set size and label"
	SetStatus   Action = "set status" // no change that counts
	TakeBack    Action = "take the last edit back"
	Delete      Action = "delete"
	Restart     Action = "stop the operator in peace"
	Crash       Action = "crash the operator"
	CrashUnsent Action = "crash the operator instead of its next write"
	CrashUntold Action = "crash the operator before it is told that its next write is done"
)

// Faults are what goes wrong on the wire until the last step is done; the lags go on.
type Faults struct {
	Latency    time.Duration // of an answer, at the most
	Lag        time.Duration // of an event of a watch, at the most
	Conflict   float64       // of the patches: 409
	Failing    float64       // 500
	Busy       float64       // 429
	Lost       float64       // written, but the answer is lost
	Unreadable float64       // of the reads of single objects: 500
	Break      float64       // of the events: the watch ends before it
	Expired    float64       // of the watches: 410, the operator has to list again
}

const defaultCheckpoint = 100 * time.Millisecond // that of kopf.WithCheckpoint

// NewPlan draws a plan for some objects, in which time goes by in ticks.
func NewPlan(seed uint64, tick time.Duration, objects int) Plan {
	d := dice{rand.New(rand.NewPCG(seed, 0)), tick}
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
	p.Handlers[0].Reasons = withUpdate(p.Handlers[0].Reasons) // a change without anybody to tell is no test
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
	p.Patient = d.chance(0.2)
	return p
}

// dice are what plans are drawn with.
type dice struct {
	*rand.Rand
	tick time.Duration
}

func (d dice) chance(p float64) bool { return d.Float64() < p }

// ticks are a time of up to so many ticks; mostly whole ones, so that things happen at the same time.
func (d dice) ticks(most int) time.Duration {
	whole := time.Duration(d.IntN(most+1)) * d.tick
	if d.chance(0.3) {
		whole += time.Duration(d.Int64N(int64(d.tick)))
	}
	return whole
}

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

func (d dice) handler(i int) Handler {
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

func (d dice) step(objects int) Step {
	return Step{
		After: pick(d, 0, d.ticks(1), d.ticks(5), d.ticks(20)),
		Action: pick(d, SetSize, SetSize, SetColor, SetColor, SetTier, SetNote, SetTwo, DropTier, AddTag, SetStatus,
			TakeBack, TakeBack, TakeBack, pick(d, SetSize, Delete)),
		Object: d.IntN(objects),
	}
}

func (d dice) failure() Step {
	return Step{
		After:  d.ticks(10),
		Action: pick(d, Restart, Crash, CrashUnsent, CrashUntold),
		Down:   pick(d, 0, d.ticks(5), d.ticks(40)),
	}
}

func (d dice) faults() Faults {
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

// String is the plan as it stands in the log of a failure.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d %s, lifecycle %q, checkpoint %s, patient users: %t\n",
		p.Seed, p.Objects, p.Kind.Name, p.Lifecycle, p.Checkpoint, p.Patient)
	for _, h := range p.Handlers {
		fmt.Fprintf(&b, "  %+v\n", h)
	}
	fmt.Fprintf(&b, "  %+v\n", p.Faults)
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "  %2d: after %s, %s", i, s.After, s.Action)
		if s.Action.concernsOperator() {
			fmt.Fprintf(&b, ", which is away for %s\n", s.Down)
		} else {
			fmt.Fprintf(&b, " of %s\n", nameOf(s.Object))
		}
	}
	return b.String()
}

func (a Action) concernsOperator() bool {
	return a == Restart || a == Crash || a == CrashUnsent || a == CrashUntold
}

func nameOf(object int) string { return fmt.Sprintf("o%d", object+1) }
