package metrics

import (
	"maps"
	"sync"
)

// watchProblemUsers counts the open WatchProblemCounts of each kind.
var watchProblemUsers struct {
	mu     sync.Mutex
	byKind map[string]int
}

// A WatchProblemCount is what one check adds to the number of watches with problems. The counts of a kind are summed up. It is not safe for
// concurrent use.
type WatchProblemCount struct {
	kind string
	last map[string]int
}

// NewWatchProblemCount returns a count of problems by reason. The caller must close it.
func NewWatchProblemCount(kind string) *WatchProblemCount {
	watchProblemUsers.mu.Lock()
	defer watchProblemUsers.mu.Unlock()
	if watchProblemUsers.byKind == nil {
		watchProblemUsers.byKind = map[string]int{}
	}
	watchProblemUsers.byKind[kind]++
	return &WatchProblemCount{kind: kind, last: map[string]int{}}
}

// Set sets the current numbers. A reason that is missing counts as 0.
func (c *WatchProblemCount) Set(numbers map[string]int) {
	for reason, n := range c.last {
		if _, found := numbers[reason]; !found {
			WatchProblems.WithLabelValues(c.kind, reason).Sub(float64(n))
		}
	}
	for reason, n := range numbers {
		WatchProblems.WithLabelValues(c.kind, reason).Add(float64(n - c.last[reason]))
	}
	c.last = maps.Clone(numbers)
}

// Close removes the count, and the kind's time series if it was the last count of that kind.
func (c *WatchProblemCount) Close() {
	c.Set(nil)
	watchProblemUsers.mu.Lock()
	defer watchProblemUsers.mu.Unlock()
	if watchProblemUsers.byKind[c.kind]--; watchProblemUsers.byKind[c.kind] > 0 {
		return
	}
	delete(watchProblemUsers.byKind, c.kind)
	WatchProblems.DeletePartialMatch(map[string]string{"kind": c.kind})
}
