package operator

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// A Phase is the stage of a unit's life.
type Phase int

// The phases.
const (
	Starting Phase = iota // its caches have not synced, so the operator calls no handlers yet
	Serving
	Leaving // running handlers are finishing
	Failing // it has failed, or cannot be started
)

// RetryInterval is how long a failed unit waits before it can start again.
const RetryInterval = 30 * time.Second

// Units are what an operator handles, such as kinds or namespaces. Most of them come and go. Such a unit runs in its own goroutine until it
// is no longer wanted. Units is safe for concurrent use.
type Units[K comparable] struct {
	count   *metrics.StateCount
	changed func() // called when a unit has returned

	mu      sync.RWMutex
	units   map[K]*unit
	waiting int
	group   sync.WaitGroup
}

type unit struct {
	phase      Phase
	stop       context.CancelFunc // nil if the unit isn't running or is a kept one
	isKept     bool
	isStopping bool
	err        error     // why it has failed
	retryAt    time.Time // when it can start again
}

// NewUnits returns an empty Units. changed is called when a unit has returned, because it may be wanted again.
func NewUnits[K comparable](count *metrics.StateCount, changed func()) *Units[K] {
	return &Units[K]{count: count, changed: changed, units: map[K]*unit{}}
}

func (u *unit) isRunning() bool { return u.stop != nil || u.isKept }

// Keep adds units that Stop leaves alone. The caller runs them until it calls forget.
func (u *Units[K]) Keep(keys ...K) (forget func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, key := range keys {
		u.units[key] = &unit{phase: Starting, isKept: true}
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		for _, key := range keys {
			delete(u.units, key)
		}
	}
}

// KeptIn reports whether a kept unit is in a phase.
func (u *Units[K]) KeptIn(phase Phase) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	for _, one := range u.units {
		if one.isKept && one.phase == phase {
			return true
		}
	}
	return false
}

// Start runs a unit until the context is cancelled or [Units.Stop] is called. It does nothing if the unit is running or has failed
// recently. The unit fails if run returns an error.
func (u *Units[K]) Start(ctx context.Context, key K, run func(ctx context.Context) error) (started bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if existing := u.units[key]; existing != nil && (existing.isRunning() || time.Now().Before(existing.retryAt)) {
		return false
	}
	ctx, stop := context.WithCancel(ctx)
	u.units[key] = &unit{phase: Starting, stop: stop}
	u.updateMetric()
	u.group.Go(func() {
		defer stop()
		u.end(key, run(ctx))
		u.changed()
	})
	return true
}

func (u *Units[K]) end(key K, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	defer u.updateMetric()
	if err == nil {
		delete(u.units, key)
		return
	}
	u.units[key] = &unit{phase: Failing, err: err, retryAt: time.Now().Add(RetryInterval)}
}

// Stop stops the running units that are no longer wanted, and forgets the unwanted ones that have failed. It returns the units it has
// stopped without waiting for them to return.
func (u *Units[K]) Stop(isWanted func(K) bool) (stopped []K) {
	u.mu.Lock()
	defer u.mu.Unlock()
	defer u.updateMetric()
	for key, one := range u.units {
		switch {
		case isWanted(key) || one.isStopping || one.isKept:
		case one.stop == nil:
			delete(u.units, key)
		default:
			one.stop()
			one.isStopping = true
			stopped = append(stopped, key)
		}
	}
	return stopped
}

// Wait waits until all units have returned, and forgets those that have failed.
func (u *Units[K]) Wait() {
	u.group.Wait()
	u.Stop(func(K) bool { return false })
}

// Set sets the phase of a running unit.
func (u *Units[K]) Set(key K, phase Phase) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if one := u.units[key]; one != nil {
		one.phase = phase
		u.updateMetric()
	}
}

// Fail records why a unit cannot be started. It does nothing while the unit runs.
func (u *Units[K]) Fail(key K, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if one := u.units[key]; one == nil || !one.isRunning() {
		u.units[key] = &unit{phase: Failing, err: err}
		u.updateMetric()
	}
}

// SetWaiting sets the number of declarations without a unit, which only the metric shows.
func (u *Units[K]) SetWaiting(number int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.waiting = number
	u.updateMetric()
}

// Phase returns a unit's phase, or false if there is no such unit.
func (u *Units[K]) Phase(key K) (phase Phase, exists bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	if one := u.units[key]; one != nil {
		return one.phase, true
	}
	return 0, false
}

// UnitState is a unit's state.
type UnitState struct {
	Phase     Phase
	Err       error // why the unit has failed
	IsRunning bool
	RetryAt   time.Time // when a failed unit can start again
}

// All returns the state of every unit.
func (u *Units[K]) All() map[K]UnitState {
	u.mu.RLock()
	defer u.mu.RUnlock()
	all := make(map[K]UnitState, len(u.units))
	for key, one := range u.units {
		all[key] = UnitState{one.phase, one.err, one.isRunning(), one.retryAt}
	}
	return all
}

// updateMetric counts the units in each phase, except kept ones. The caller must hold the lock.
func (u *Units[K]) updateMetric() {
	numbers := map[string]int{}
	if u.waiting > 0 {
		numbers[metrics.Waiting] = u.waiting
	}
	for one := range maps.Values(u.units) {
		if one.isKept {
			continue
		}
		numbers[[...]string{Starting: metrics.Starting, Serving: metrics.Served, Leaving: metrics.Leaving, Failing: metrics.Failed}[one.phase]]++
	}
	u.count.Set(numbers)
}
