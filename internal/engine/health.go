package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// health records progress for the liveness check.
type health struct {
	mu       sync.Mutex
	running  int
	keys     map[types.NamespacedName]bool // the keys that are being reconciled; nil if the engine has no scope
	finished time.Time                     // the end of the last reconcile

	failures map[types.NamespacedName]failure // the objects whose last reconcile has failed
}

// failure is an error that has ended a reconcile.
type failure struct {
	err        error
	isExpected bool // it was a conflict, throttling, or a suspension of the process
}

// setFailure records the error that has ended a reconcile, or nil.
func (h *health) setFailure(key types.NamespacedName, err error, isExpected bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.failures, key)
		return
	}
	if h.failures == nil {
		h.failures = map[types.NamespacedName]failure{}
	}
	h.failures[key] = failure{err, isExpected}
}

// Retry returns the expected error that ended the last reconcile of an object, and because of which the object is reconciled again: a conflict,
// throttling, or a suspension of the process. It returns nil if there was none. It is for the test kit.
func (e *Engine) Retry(key types.NamespacedName) error {
	e.health.mu.Lock()
	defer e.health.mu.Unlock()
	if last := e.health.failures[key]; last.isExpected {
		return last.err
	}
	return nil
}

// trackReconcile records that a worker has begun a reconcile. The returned function records its end.
func (e *Engine) trackReconcile(key types.NamespacedName) (done func()) {
	e.states.MarkStarted(key)
	e.promoter.Begin(key)
	began := time.Now()
	e.health.mu.Lock()
	defer e.health.mu.Unlock()
	if e.Scope != nil {
		e.health.keys[key] = true
	}
	if e.health.running++; e.health.finished.IsZero() {
		e.health.finished = time.Now() // the liveness check measures from the first reconcile
	}
	return func() {
		e.promoter.End(key, time.Since(began))
		e.health.mu.Lock()
		defer e.health.mu.Unlock()
		e.health.running--
		delete(e.health.keys, key)
		e.health.finished = time.Now()
	}
}

// isRunning reports whether a key that match accepts is being reconciled.
func (h *health) isRunning(match func(types.NamespacedName) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.keys {
		if match(key) {
			return true
		}
	}
	return false
}

// QueueStats contains the numbers of waiting and running reconciles, the longest waiting time, and the time since the end of the last reconcile.
type QueueStats struct {
	Waiting, Running    int
	Longest, Unfinished time.Duration
}

// QueueStats returns the statistics of the queue, and updates the metrics of the longest waiting time and of the number of objects.
func (e *Engine) QueueStats() QueueStats {
	n, longest := e.states.QueueStats()
	e.health.mu.Lock()
	defer e.health.mu.Unlock()
	stats := QueueStats{Waiting: n, Running: e.health.running, Longest: longest}
	if !e.health.finished.IsZero() {
		stats.Unfinished = time.Since(e.health.finished)
	}
	metrics.OldestUnhandled.WithLabelValues(e.Name).Set(longest.Seconds())
	metrics.Objects.WithLabelValues(e.Name).Set(float64(e.states.Len()))
	return stats
}

// InProgress returns the ids of the cause handlers that have begun and have not finished, with their delays. If all of them have finished, it returns the
// ids of the handlers that still have records. It is for the test kit.
func (e *Engine) InProgress(obj client.Object) (texts []string) {
	var finished []string
	for _, id := range e.Handlers.IDs() {
		record, err := e.Store.Fetch(obj, id)
		switch {
		case err != nil:
			texts = append(texts, fmt.Sprintf("%s (its record cannot be read: %v)", id, err))
		case record == nil:
		case record.Finished():
			finished = append(finished, id)
		case record.Delayed.IsZero():
			texts = append(texts, id)
		default:
			texts = append(texts, fmt.Sprintf("%s (delayed until %s)", id, record.Delayed.UTC().Format(time.RFC3339)))
		}
	}
	if len(texts) == 0 {
		return finished
	}
	return texts
}

// MayFilterEvents reports whether predicates may prevent reconciles. It is for the test kit.
func (e *Engine) MayFilterEvents() bool { return e.hasPredicates.Load() }

// noteObject updates the metrics of paused objects and of loops. r is nil if the object does not exist or is not handled any more.
func (e *Engine) noteObject(key types.NamespacedName, r *reconciliation) {
	paused, loops := false, false
	if r != nil {
		_, annotated := r.Base().GetAnnotations()[PausedAnnotation]
		paused = annotated && IsObjectPaused(r.Base())
		loops = r.known.Worker.Loops.IsLooping()
	}
	e.pausedObjects.note(metrics.PausedObjects, e.Name, key, paused)
	e.loopingObjects.note(metrics.LoopingObjects, e.Name, key, loops)
}

// markedObjects counts objects for a metric, such as objects that annotations pause.
type markedObjects struct {
	count atomic.Int64 // without objects, note takes no lock
	mu    sync.Mutex
	keys  map[types.NamespacedName]bool
}

// note records whether the object of a key counts.
func (p *markedObjects) note(gauge *prometheus.GaugeVec, kind string, key types.NamespacedName, counts bool) {
	if !counts && p.count.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil {
		p.keys = map[types.NamespacedName]bool{}
	}
	if counts {
		p.keys[key] = true
	} else {
		delete(p.keys, key)
	}
	p.count.Store(int64(len(p.keys)))
	gauge.WithLabelValues(kind).Set(float64(len(p.keys)))
}

// has reports whether the object of a key counts.
func (p *markedObjects) has(key types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[key]
}
