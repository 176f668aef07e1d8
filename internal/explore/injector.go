package explore

import (
	"io"
	"slices"
	"sync"
)

// An Injector selects a plan's faults for the writes, watch events and calls of an operator. It records the writes and watch events. All
// three are counted over all starts of the operator. An Injector is safe for concurrent use.
type Injector struct {
	plan Plan
	now  func() Moment

	mu          sync.Mutex
	writes      []Write
	watchEvents []WatchEvent
	watched     []string
	calls       int
	injected    []Fault
}

// NewInjector returns an injector for one run. now returns the current moment, and must be safe for concurrent use.
func NewInjector(plan Plan, now func() Moment) *Injector {
	return &Injector{plan: plan, now: now}
}

// BeginWrite records a write. It returns the write's number and the kind of its fault, which is empty if there is none.
func (i *Injector) BeginWrite(w Write) (number int, kind Kind) {
	w.Before = i.now()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.writes = append(i.writes, w)
	number = len(i.writes)
	f, _ := i.findFault(number, Kind.affectsWrites)
	return number, f.Kind
}

// EndWrite records that the server has handled a write.
func (i *Injector) EndWrite(number int) {
	now := i.now()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.writes[number-1].After = now
}

// RecordCall records a call, and reports whether the operator must be shut down now.
func (i *Injector) RecordCall() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.calls++
	_, shutdown := i.findFault(i.calls, func(k Kind) bool { return k == Shutdown })
	return shutdown
}

// recordWatchEvent records a watch event, and reports whether the stream must delay it. It never does if canDelay is false.
func (i *Injector) recordWatchEvent(n WatchEvent, canDelay bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.watchEvents = append(i.watchEvents, n)
	_, unseen := i.findFault(len(i.watchEvents), func(k Kind) bool { return canDelay && k == Unseen })
	return unseen
}

// findFault finds the plan's fault with the given number and a matching kind, and records that it was injected.
func (i *Injector) findFault(number int, matches func(Kind) bool) (Fault, bool) {
	for _, f := range i.plan {
		if f.At == number && matches(f.Kind) {
			i.injected = append(i.injected, f)
			return f, true
		}
	}
	return Fault{}, false
}

// LastCrash returns the last crash so far. It returns false if there was none.
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

// WatchNames returns the names of all watches so far, as in [WatchEvent]. A name can occur several times.
func (i *Injector) WatchNames() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.watched)
}

// Writes returns all writes so far.
func (i *Injector) Writes() []Write {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.writes)
}

// CopyTo copies the records to a run. For writes that the server hasn't handled, it sets After to Before.
func (i *Injector) CopyTo(out *Run) {
	i.mu.Lock()
	defer i.mu.Unlock()
	out.Writes, out.WatchEvents, out.Injected = slices.Clone(i.writes), slices.Clone(i.watchEvents), len(i.injected)
	for n, w := range out.Writes {
		if w.After == (Moment{}) {
			out.Writes[n].After = w.Before
		}
	}
}

// Watch returns the body of a watch response with the plan's faults. The name has the form of WatchEvent.Watch. If the response starts with
// a list (sendInitialEvents), the list's events aren't counted.
func (i *Injector) Watch(name string, initial bool, body io.ReadCloser) io.ReadCloser {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.watched = append(i.watched, name)
	return newStream(i, name, initial, body)
}
