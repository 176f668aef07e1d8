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

// Notes are what an operator process takes of itself. They are small, so that they do not count in its memory.
type notes struct {
	passes  atomic.Int64
	running atomic.Int64 // daemons

	mu        sync.Mutex
	began     time.Time
	due       map[string]time.Duration // the next calls of timers by the names of their objects, since it began
	condemned map[types.UID]time.Time  // when objects were seen being deleted
	stopped   time.Time                // when the manager was told to stop
	noted     []float64                // milliseconds
	last      time.Time
}

func newNotes() *notes {
	return &notes{began: time.Now(), due: map[string]time.Duration{}, condemned: map[types.UID]time.Time{}}
}

// expect says when the timer of an object is to be called.
func (n *notes) expect(name string, in time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.due[name] = time.Since(n.began) + in
}

// called notes how late the timer of an object is.
func (n *notes) called(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note(time.Since(n.began) - n.due[name])
}

// watch takes note of objects that are being deleted when the informer gets them, before it tells anybody.
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

// stops notes that the manager is told to stop now.
func (n *notes) stops() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = time.Now()
}

// told notes how long it took until a daemon was told why it has to stop.
func (n *notes) told(ctx context.Context, uid types.UID) {
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

// recall tells what was noted, and forgets it.
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
