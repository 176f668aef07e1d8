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
	now  func() Position

	mu          sync.Mutex
	writes      []Write
	watchEvents []WatchEvent
	watched     []string
	calls       int
	injected    []Fault
}

// NewInjector returns an injector for one run. The function now returns the present moment.
func NewInjector(plan Plan, now func() Position) *Injector {
	return &Injector{plan: plan, now: now}
}

// Begin records a write, and returns its number and what must happen to it; empty: nothing.
func (i *Injector) Begin(w Write) (number int, kind Kind) {
	w.Before = i.now()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.writes = append(i.writes, w)
	number = len(i.writes)
	f, _ := i.findFault(number, Kind.affectsWrites)
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
	_, shutdown := i.findFault(i.calls, func(k Kind) bool { return k == Shutdown })
	return shutdown
}

// notice records a notice, and reports whether it must be held back.
func (i *Injector) recordWatchEvent(n WatchEvent) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.watchEvents = append(i.watchEvents, n)
	_, unseen := i.findFault(len(i.watchEvents), func(k Kind) bool { return k == Unseen })
	return unseen
}

// strike finds the fault for a number.
func (i *Injector) findFault(number int, of func(Kind) bool) (Fault, bool) {
	for _, f := range i.plan {
		if f.At == number && of(f.Kind) {
			i.injected = append(i.injected, f)
			return f, true
		}
	}
	return Fault{}, false
}

// LastCrash returns the crash that has happened last, if one has.
func (i *Injector) LastCrash() (Fault, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, f := range slices.Backward(i.injected) {
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
	out.Writes, out.WatchEvents, out.Injected = slices.Clone(i.writes), slices.Clone(i.watchEvents), len(i.injected)
	for n, w := range out.Writes {
		if w.After == (Position{}) {
			out.Writes[n].After = w.Before
		}
	}
}

// Watch puts the injector on the body of the answer to a watch. The name is that of [WatchEvent]. If the answer begins with a
// list (sendInitialEvents), that is not counted.
func (i *Injector) Watch(name string, initial bool, body io.ReadCloser) io.ReadCloser {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.watched = append(i.watched, name)
	return newStream(i, name, initial, body)
}
