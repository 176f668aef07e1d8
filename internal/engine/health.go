package engine

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// failure is an error that has ended a reconcile.
type failure struct {
	err        error
	isExpected bool // it was a conflict, throttling, or a suspension of the process
}

// setFailure records the error that has ended a reconcile, or nil.
func (e *Engine) setFailure(key types.NamespacedName, err error, isExpected bool) {
	if err == nil {
		e.failures.Take(key)
	} else {
		e.failures.Set(key, failure{err, isExpected})
	}
}

// Retry returns the expected error that ended the last reconcile of an object, and because of which the object is reconciled again: a conflict,
// throttling, or a suspension of the process. It returns nil if there was none. It is for the test kit.
func (e *Engine) Retry(key types.NamespacedName) error {
	if last := e.failures.Get(key); last.isExpected {
		return last.err
	}
	return nil
}

// trackReconcile records that a worker has begun a reconcile. The returned function records its end.
func (e *Engine) trackReconcile(key types.NamespacedName) (done func()) {
	e.states.MarkStarted(key)
	e.promoter.Begin(key)
	began := time.Now()
	e.running.Set(key, struct{}{})
	e.finished.CompareAndSwap(0, e.age()) // the liveness check measures from the first reconcile
	return func() {
		e.promoter.End(key, time.Since(began))
		e.finished.Store(e.age()) // first, so that QueueStats never returns an earlier end without a running reconcile
		e.running.Take(key)
	}
}

// age returns the time since the creation of the engine in nanoseconds, at least 1.
func (e *Engine) age() int64 { return max(1, int64(time.Since(e.created))) }

// QueueStats contains the numbers of waiting and running reconciles, the longest waiting time, and the time since the end of the last reconcile.
type QueueStats struct {
	Waiting, Running    int
	Longest, Unfinished time.Duration
}

// QueueStats returns the statistics of the queue, and updates the metrics of the longest waiting time and of the number of objects.
func (e *Engine) QueueStats() QueueStats {
	n, longest := e.states.QueueStats()
	stats := QueueStats{Waiting: n, Running: e.running.Len(), Longest: longest}
	if finished := e.finished.Load(); finished != 0 {
		stats.Unfinished = time.Since(e.created.Add(time.Duration(finished)))
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
	e.pausedObjects.Note(metrics.PausedObjects, e.Name, key, paused)
	e.loopingObjects.Note(metrics.LoopingObjects, e.Name, key, loops)
}
