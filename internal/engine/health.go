package engine

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// Retry returns the expected error that made the last reconcile of an object fail, and because of which it is retried: a conflict,
// throttling, or a suspended process. It returns nil if there was none. It is for the test kit.
func (e *Engine) Retry(key types.NamespacedName) error {
	if last := e.queue.failures.Get(key); last.isExpected {
		return last.err
	}
	return nil
}

// QueueStats contains how many reconciles are waiting and running, the longest wait, and the time since the last reconcile finished.
type QueueStats struct {
	Waiting, Running    int
	Longest, Unfinished time.Duration
}

// QueueStats returns the queue's statistics. It also updates the metrics for the longest wait and the number of objects.
func (e *Engine) QueueStats() QueueStats {
	n, longest := e.states.QueueStats()
	stats := QueueStats{Waiting: n, Running: e.queue.running.Len(), Longest: longest}
	if finished := e.queue.finished.Load(); finished != 0 {
		stats.Unfinished = time.Since(e.queue.created.Add(time.Duration(finished)))
	}
	metrics.OldestUnhandled.WithLabelValues(e.Name).Set(longest.Seconds())
	metrics.Objects.WithLabelValues(e.Name).Set(float64(e.states.Len()))
	return stats
}

// InProgress returns the ids of the cause handlers that have started but not finished, with their delays. If all of them have finished, it
// returns those that still have records. It is for the test kit.
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
func (e *Engine) MayFilterEvents() bool { return e.queue.hasPredicates.Load() }
