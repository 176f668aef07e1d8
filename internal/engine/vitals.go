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

	retries map[types.NamespacedName]error // conflicts and throttling that ended the last reconcile of an object
}

// setRetry records whether a conflict or throttling has ended a reconcile, which is repeated because of it.
func (v *vitals) setRetry(key types.NamespacedName, repeats bool, err error) {
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
	e.vitals.mu.Lock()
	defer e.vitals.mu.Unlock()
	return e.vitals.retries[key]
}

// takes notes that a worker has begun with a name; the result, that it has finished.
func (e *Engine) takes(key types.NamespacedName) (done func()) {
	e.states.MarkStarted(key)
	e.promoter.begin(key)
	began := time.Now()
	e.vitals.mu.Lock()
	defer e.vitals.mu.Unlock()
	if e.vitals.running++; e.vitals.finished.IsZero() {
		e.vitals.finished = time.Now() // from now on there is something to finish
	}
	return func() {
		e.promoter.end(key, time.Since(began))
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
	n, longest := e.states.QueueStats()
	e.vitals.mu.Lock()
	defer e.vitals.mu.Unlock()
	p := Pulse{Waiting: n, Running: e.vitals.running, Longest: longest}
	if !e.vitals.finished.IsZero() {
		p.Unfinished = time.Since(e.vitals.finished)
	}
	metrics.OldestUnhandled.WithLabelValues(e.Name).Set(longest.Seconds())
	return p
}
