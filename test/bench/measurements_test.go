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

// measurements holds the data that an operator process records about itself. It must stay small, because it counts
// toward the measured memory of the process.
type measurements struct {
	reconciles atomic.Int64 // completed reconciles
	running    atomic.Int64 // running daemons

	mu        sync.Mutex
	start     time.Time
	dueAt     map[string]time.Duration // next call of the timer by object name, as the time since start
	deletedAt map[types.UID]time.Time  // arrival of the event with the deletion timestamp
	stoppedAt time.Time                // when the manager was stopped
	latencies []float64                // lateness of timers, or time until the cancellation of daemons, in milliseconds
	last      time.Time                // when the last latency was recorded
}

func newMeasurements() *measurements {
	return &measurements{start: time.Now(), dueAt: map[string]time.Duration{}, deletedAt: map[types.UID]time.Time{}}
}

// expectTimer records that the timer of the object is due after the given duration.
func (m *measurements) expectTimer(name string, in time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dueAt[name] = time.Since(m.start) + in
}

// recordTimer records the lateness of the timer of the object. It must be called when the timer is called.
func (m *measurements) recordTimer(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(time.Since(m.start) - m.dueAt[name])
}

// recordDeletion is a cache transform. It records when the informer first receives an object with a deletion timestamp,
// and returns the object unchanged.
func (m *measurements) recordDeletion(obj any) (any, error) {
	if o, ok := obj.(client.Object); ok && o.GetDeletionTimestamp() != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if _, known := m.deletedAt[o.GetUID()]; !known {
			m.deletedAt[o.GetUID()] = time.Now()
		}
	}
	return obj, nil
}

// recordStop records that the manager is being stopped.
func (m *measurements) recordStop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stoppedAt = time.Now()
}

// recordCancellation records the time from the cause of the cancellation until now. The cause is the deletion of the
// object or the stop of the manager.
func (m *measurements) recordCancellation(ctx context.Context, uid types.UID) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	since := m.stoppedAt
	if errors.Is(context.Cause(ctx), daemons.ErrDeleted) {
		since = m.deletedAt[uid]
	}
	m.add(now.Sub(since))
}

func (m *measurements) add(d time.Duration) {
	m.latencies, m.last = append(m.latencies, milliseconds(d)), time.Now()
}

// take copies the recorded latencies and the metric of the timers to stats. It clears the latencies.
func (m *measurements) take(out *stats) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	out.Latencies, out.Last, m.latencies = m.latencies, m.last, nil
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
			out.Calls += histogram.GetSampleCount()
			out.Late += histogram.GetSampleCount()
			for _, bucket := range histogram.GetBucket() {
				if bucket.GetUpperBound() == 1 {
					out.Late -= bucket.GetCumulativeCount()
				}
			}
		}
	}
	return nil
}
