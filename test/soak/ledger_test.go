package soak

import (
	"fmt"
	"sync"
	"time"
)

// due identifies an expected call of a handler by the object, the handler and the state that the handler must receive.
type due struct{ Object, Handler, Input string }

// call is one successful attempt of a handler.
type call struct {
	Process int
	At      time.Time
}

// interruption is a period in which a process was ended or suspended.
type interruption struct{ From, Until time.Time }

// ledger records the calls of handlers and the violations. It is safe for concurrent use.
type ledger struct {
	mu            sync.Mutex
	calls         map[due][]call
	interruptions []interruption
	ticks         map[string]time.Time // last call of the timer by object
	lateness      time.Duration        // longest delay of a timer call
	ticked        int
	total         int
	repeats       int
	violations    []string
}

func newLedger() *ledger {
	return &ledger{calls: map[due][]call{}, ticks: map[string]time.Time{}}
}

// record adds a successful attempt of a handler.
func (l *ledger) record(d due, process int, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	l.calls[d] = append(l.calls[d], call{process, at})
}

// tick adds a call of the timer of an object.
func (l *ledger) tick(object string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, ok := l.ticks[object]; ok {
		l.lateness = max(l.lateness, at.Sub(last)-tickInterval)
	}
	l.ticks[object], l.ticked = at, l.ticked+1
}

// interrupt records that a process was ended or suspended between from and until.
func (l *ledger) interrupt(from, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interruptions = append(l.interruptions, interruption{from, until})
}

// repeatMargin extends an interruption on both sides. The successor may repeat calls within this margin, because it must
// first acquire the lease.
const repeatMargin = time.Minute

// expect checks the number of calls for a cause and removes them. The cause must already be handled.
func (l *ledger) expect(d due) {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.calls[d]
	delete(l.calls, d)
	if len(calls) == 0 {
		l.addf("handler %q was not called for %s %q", d.Handler, d.Object, d.Input)
		return
	}
	for i, repeated := range calls[1:] {
		if !l.interrupted(calls[i].At, repeated.At) {
			l.addf("handler %q was called %d times for %s %q: by process %d and, %s later, by process %d",
				d.Handler, len(calls), d.Object, d.Input, calls[i].Process, repeated.At.Sub(calls[i].At), repeated.Process)
		}
		l.repeats++
	}
}

// unexpected reports a violation for each call that no driver expected.
func (l *ledger) unexpected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d, calls := range l.calls {
		last := calls[len(calls)-1]
		if !l.interrupted(last.At, last.At) {
			l.addf("handler %q was called for %s %q, which was not due", d.Handler, d.Object, d.Input)
		}
	}
	clear(l.calls)
}

func (l *ledger) interrupted(first, repeated time.Time) bool {
	for _, i := range l.interruptions {
		if i.From.Before(repeated.Add(repeatMargin)) && i.Until.Add(repeatMargin).After(first) {
			return true
		}
	}
	return false
}

// violatef adds a violation found by a driver.
func (l *ledger) violatef(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addf(format, args...)
}

func (l *ledger) addf(format string, args ...any) {
	l.violations = append(l.violations, time.Now().UTC().Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

// figures returns the counts for the report.
func (l *ledger) figures() (total, repeats, ticked int, lateness time.Duration, violations []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total, l.repeats, l.ticked, l.lateness, append([]string(nil), l.violations...)
}
