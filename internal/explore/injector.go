package explore

import (
	"io"
	"slices"
	"sync"
)

// An Injector has the faults of a plan happen, over all lives of an operator, and records what they are numbered by. It is safe for
// concurrent use.
type Injector struct {
	plan Plan
	now  func() Moment

	mu      sync.Mutex
	writes  []Write
	notices []Notice
	watched []string
	calls   int
	struck  []Fault
}

// NewInjector returns an injector for one run. The function now returns the present moment.
func NewInjector(plan Plan, now func() Moment) *Injector {
	return &Injector{plan: plan, now: now}
}

// Begin records a write, and returns its number and what must happen to it; empty: nothing.
func (i *Injector) Begin(w Write) (number int, kind Kind) {
	w.Before = i.now()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.writes = append(i.writes, w)
	number = len(i.writes)
	f, _ := i.strike(number, Kind.strikesWrites)
	return number, f.Kind
}

// End records that the server has done a write.
func (i *Injector) End(number int) {
	now := i.now()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.writes[number-1].After = now
}

// Call records a call, and reports whether the operator must be shut down now.
func (i *Injector) Call() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.calls++
	_, shutdown := i.strike(i.calls, func(k Kind) bool { return k == Shutdown })
	return shutdown
}

// notice records a notice, and reports whether it must be held back.
func (i *Injector) notice(n Notice) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.notices = append(i.notices, n)
	_, unseen := i.strike(len(i.notices), func(k Kind) bool { return k == Unseen })
	return unseen
}

// strike finds the fault for a number.
func (i *Injector) strike(number int, of func(Kind) bool) (Fault, bool) {
	for _, f := range i.plan {
		if f.At == number && of(f.Kind) {
			i.struck = append(i.struck, f)
			return f, true
		}
	}
	return Fault{}, false
}

// LastCrash returns the crash that has happened last, if one has.
func (i *Injector) LastCrash() (Fault, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, f := range slices.Backward(i.struck) {
		if f.Kind.crashes() {
			return f, true
		}
	}
	return Fault{}, false
}

// Watched returns the names of the watches.
func (i *Injector) Watched() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.watched)
}

// Writes returns the writes that have begun.
func (i *Injector) Writes() []Write {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.writes)
}

// Record puts what was recorded into a run. A write that the server has not done has its first moment as its last.
func (i *Injector) Record(out *Run) {
	i.mu.Lock()
	defer i.mu.Unlock()
	out.Writes, out.Notices, out.Struck = slices.Clone(i.writes), slices.Clone(i.notices), len(i.struck)
	for n, w := range out.Writes {
		if w.After == (Moment{}) {
			out.Writes[n].After = w.Before
		}
	}
}

// Watch puts the injector on the body of the answer to a watch. The name is that of [Notice]. If the answer begins with a
// list (sendInitialEvents), that is not counted.
func (i *Injector) Watch(name string, initial bool, body io.ReadCloser) io.ReadCloser {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.watched = append(i.watched, name)
	return newStream(i, name, initial, body)
}
