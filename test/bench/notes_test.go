package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// notes are measurements of an operator process about itself. They are small, so that they do not count in its memory.
type notes struct {
	passes  atomic.Int64
	running atomic.Int64 // number of daemons

	mu        sync.Mutex
	began     time.Time
	due       map[string]time.Duration // next calls of timers by the names of their objects, as times since the start
	condemned map[types.UID]time.Time  // times of the deletion events of objects
	stopped   time.Time                // time of the stop of the manager
	noted     []float64                // milliseconds
	last      time.Time
}

func newNotes() *notes {
	return &notes{began: time.Now(), due: map[string]time.Duration{}, condemned: map[types.UID]time.Time{}}
}

// expect sets the time of the next call of an object's timer.
func (n *notes) expect(name string, in time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.due[name] = time.Since(n.began) + in
}

// called records how late the timer of an object is.
func (n *notes) called(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note(time.Since(n.began) - n.due[name])
}

// watch records the deletion of objects when the informer receives the event.
func (n *notes) watch(is any) (any, error) {
	if obj, ok := is.(client.Object); ok && obj.GetDeletionTimestamp() != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		if _, known := n.condemned[obj.GetUID()]; !known {
			n.condemned[obj.GetUID()] = time.Now()
		}
	}
	return is, nil
}

// stops records the time of the stop of the manager.
func (n *notes) stops() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = time.Now()
}

// cancelled records the time until the context of a daemon is cancelled.
func (n *notes) cancelled(ctx context.Context, uid types.UID) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	since := n.stopped
	if errors.Is(context.Cause(ctx), daemons.ErrDeleted) {
		since = n.condemned[uid]
	}
	n.note(now.Sub(since))
}

func (n *notes) note(d time.Duration) {
	n.noted, n.last = append(n.noted, milliseconds(d)), time.Now()
}

// recall returns the measurements, and clears them.
func (n *notes) recall(to *stats) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	to.Noted, to.Last, n.noted = n.noted, n.last, nil
	families, err := metrics.Registry.Gather()
	if err != nil {
		return err
	}
	for _, family := range families {
		if family.GetName() != "kopf_timer_drift_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			histogram := metric.GetHistogram()
			to.Calls += histogram.GetSampleCount()
			to.Late += histogram.GetSampleCount()
			for _, bucket := range histogram.GetBucket() {
				if bucket.GetUpperBound() == 1 {
					to.Late -= bucket.GetCumulativeCount()
				}
			}
		}
	}
	return nil
}
