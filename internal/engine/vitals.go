package engine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// vitals tell whether an engine gets on.
type vitals struct {
	mu       sync.Mutex
	running  int
	finished time.Time // when a pass has last come to its end
}

// takes notes that a worker has begun with a name; the result, that it has finished.
func (e *Engine) takes(key types.NamespacedName) (done func()) {
	e.memories.Take(key)
	e.vitals.mu.Lock()
	defer e.vitals.mu.Unlock()
	if e.vitals.running++; e.vitals.finished.IsZero() {
		e.vitals.finished = time.Now() // from now on there is something to finish
	}
	return func() {
		e.vitals.mu.Lock()
		defer e.vitals.mu.Unlock()
		e.vitals.running--
		e.vitals.finished = time.Now()
	}
}

// Pulse tells how the engine is: how many names wait, the first of them for how long; how many are being
// handled, and for how long none has been finished.
type Pulse struct {
	Waiting, Running    int
	Longest, Unfinished time.Duration
}

// Pulse takes it.
func (e *Engine) Pulse() Pulse {
	n, longest := e.memories.Waiting()
	e.vitals.mu.Lock()
	defer e.vitals.mu.Unlock()
	p := Pulse{Waiting: n, Running: e.vitals.running, Longest: longest}
	if !e.vitals.finished.IsZero() {
		p.Unfinished = time.Since(e.vitals.finished)
	}
	metrics.Oldest.WithLabelValues(e.Name).Set(longest.Seconds())
	return p
}
