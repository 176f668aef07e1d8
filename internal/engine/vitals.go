package engine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// vitals tell whether an engine gets on.
type health struct {
	mu       sync.Mutex
	running  int
	finished time.Time // when a pass has last come to its end

	retries map[types.NamespacedName]error // conflicts and throttling that ended the last reconcile of an object
}

// setRetry records whether a conflict or throttling has ended a reconcile, which is repeated because of it.
func (v *health) setRetry(key types.NamespacedName, repeats bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !repeats {
		delete(v.retries, key)
		return
	}
	if v.retries == nil {
		v.retries = map[types.NamespacedName]error{}
	}
	v.retries[key] = err
}

// Retry returns the conflict or throttling error that ended the last reconcile of an object, and because of which the
// object is reconciled again; nil if there was none. For the test kit.
func (e *Engine) Retry(key types.NamespacedName) error {
	e.health.mu.Lock()
	defer e.health.mu.Unlock()
	return e.health.retries[key]
}

// takes notes that a worker has begun with a name; the result, that it has finished.
func (e *Engine) trackReconcile(key types.NamespacedName) (done func()) {
	e.states.MarkStarted(key)
	e.promoter.begin(key)
	began := time.Now()
	e.health.mu.Lock()
	defer e.health.mu.Unlock()
	if e.health.running++; e.health.finished.IsZero() {
		e.health.finished = time.Now() // from now on there is something to finish
	}
	return func() {
		e.promoter.end(key, time.Since(began))
		e.health.mu.Lock()
		defer e.health.mu.Unlock()
		e.health.running--
		e.health.finished = time.Now()
	}
}

// Pulse tells how the engine is: how many names wait, the first of them for how long; how many are being
// handled, and for how long none has been finished.
type QueueStats struct {
	Waiting, Running    int
	Longest, Unfinished time.Duration
}

// Pulse takes it.
func (e *Engine) QueueStats() QueueStats {
	n, longest := e.states.QueueStats()
	e.health.mu.Lock()
	defer e.health.mu.Unlock()
	p := QueueStats{Waiting: n, Running: e.health.running, Longest: longest}
	if !e.health.finished.IsZero() {
		p.Unfinished = time.Since(e.health.finished)
	}
	metrics.OldestUnhandled.WithLabelValues(e.Name).Set(longest.Seconds())
	return p
}
