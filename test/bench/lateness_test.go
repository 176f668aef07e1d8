package bench

import (
	"math/rand/v2"
	"sync"
	"time"
)

// lateness records how late the timers of an operator process are. It must stay small, because it counts toward the
// measured memory of the process.
type lateness struct {
	mu    sync.Mutex
	start time.Time
	due   map[string]time.Duration // next call by object name, as the time since start
	late  []float64                // in milliseconds
}

func newLateness() *lateness {
	return &lateness{start: time.Now(), due: map[string]time.Duration{}}
}

// first returns a random delay before the first call for an object, so that the calls are spread over the interval.
func (l *lateness) first(name string, interval time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	delay := rand.N(interval) //nolint:gosec // not used for security
	l.due[name] = time.Since(l.start) + delay
	return delay
}

// called records a call for an object. The next call is due after the interval.
func (l *lateness) called(name string, interval time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Since(l.start)
	l.late = append(l.late, milliseconds(now-l.due[name]))
	l.due[name] = now + interval
}

// requeueAfter is first for an unknown object, and called for a known one.
func (l *lateness) requeueAfter(name string, interval time.Duration) time.Duration {
	l.mu.Lock()
	_, known := l.due[name]
	l.mu.Unlock()
	if !known {
		return l.first(name, interval)
	}
	l.called(name, interval)
	return interval
}

// take returns and clears the recorded values.
func (l *lateness) take() []float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	late := l.late
	l.late = nil
	return late
}
