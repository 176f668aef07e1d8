package suspension

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kopf-runtime/kopf-runtime/internal/clocks"
)

// ErrDetected means that the process was suspended between reading an object and writing it.
var ErrDetected = errors.New("the process was suspended, and another replica may be the leader: the write is delayed")

// ErrStopped means that the operator was stopped while the fence was active.
var ErrStopped = errors.New("the operator was stopped after its process was suspended: the write is discarded")

const pauseReason = "the process was suspended, or its Lease was not renewed in time; it waits until the Lease is renewed or lost"

// heartbeatsPerGap is how many heartbeats fit into the shortest gap that counts as a suspension.
const heartbeatsPerGap = 5

// Pauser reports whether the operator is paused in a namespace, and why.
type Pauser interface {
	Paused(namespace string) (paused bool, why string)
}

// Options configure a [Fence].
type Options struct {
	// Gap is the shortest time without a heartbeat that counts as a suspension.
	Gap time.Duration
	// HoldTime is how long the fence stays active after a suspension.
	HoldTime time.Duration
	// WallClock returns the wall clock's time. Default: time.Now.
	WallClock func() time.Time
	// Overdue reports whether a Lease wasn't renewed in time, so that a different process may soon handle the objects. The fence is active
	// until HoldTime after Overdue last returned true. Overdue is optional.
	Overdue func() bool
	// OtherPauses is an additional source of pauses for [Fence.Paused]. It is optional.
	OtherPauses Pauser
	Log         logr.Logger
}

// Fence detects suspensions of the process. It is safe for concurrent use, and never active before [Fence.StartHeartbeat].
type Fence struct {
	options      Options
	wakeReporter chan struct{} // wakes the heartbeat loop after a gap

	mu            sync.Mutex
	started       bool           // whether StartHeartbeat was called
	lastHeartbeat clocks.Reading // zero before the start and after the stop
	suspensions   int64
	heldUntil     time.Time     // end of the hold; zero while the fence is inactive
	reported      bool          // whether changed was called for this hold
	released      chan struct{} // closed when the hold is over
	stopped       chan struct{} // closed when the operator's context is cancelled or the heartbeat has stopped
}

// New returns an inactive fence.
func New(options Options) *Fence {
	if options.WallClock == nil {
		options.WallClock = time.Now
	}
	return &Fence{options: options, wakeReporter: make(chan struct{}, 1), released: make(chan struct{}), stopped: make(chan struct{})}
}

// StartHeartbeat records heartbeats until stop is called. Only the first call has an effect. stop waits until the heartbeat goroutine has
// returned. changed is called when the fence becomes active and when it becomes inactive. A hold isn't over before the call of changed for
// its start has returned. Once the context is cancelled or the heartbeat has stopped, holds last forever, and [Fence.Wait] returns
// [ErrStopped] during a hold.
func (f *Fence) StartHeartbeat(ctx context.Context, changed func()) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started {
		return func() {}
	}
	f.started, f.lastHeartbeat = true, clocks.Read(f.options.WallClock)
	heartbeatCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		f.runHeartbeat(ctx, heartbeatCtx, changed)
	}()
	return func() {
		cancel()
		<-stopped
	}
}

// runHeartbeat goes on after the operator's context is cancelled, because handlers may still be running.
func (f *Fence) runHeartbeat(ctx, heartbeatCtx context.Context, changed func()) {
	ticker := time.NewTicker(max(f.options.Gap/heartbeatsPerGap, time.Millisecond))
	defer ticker.Stop()
	endWaits := sync.OnceFunc(func() { close(f.stopped) })
	defer endWaits()
	operatorDone := ctx.Done()
	for {
		select {
		case <-heartbeatCtx.Done():
			f.mu.Lock()
			f.lastHeartbeat = clocks.Reading{}
			f.mu.Unlock()
			return
		case <-operatorDone:
			operatorDone = nil
			endWaits()
		case <-ticker.C:
		case <-f.wakeReporter:
		}
		if f.updateHold(ctx) {
			changed()
		}
	}
}

// updateHold ends a hold that has lasted long enough, and reports whether the fence has become active or inactive since the last call.
func (f *Fence) updateHold(ctx context.Context) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recordHeartbeat()
	switch held := !f.heldUntil.IsZero(); {
	case held && !f.reported:
		f.reported = true
		return true
	case held && ctx.Err() == nil && !time.Now().Before(f.heldUntil):
		f.options.Log.Info("The hold is over; the work continues")
		f.heldUntil, f.reported = time.Time{}, false
		close(f.released)
		f.released = make(chan struct{})
		return true
	}
	return false
}

// recordHeartbeat compares the time with the last heartbeat, and records a new one. It starts a hold after a gap, and if the Lease is
// overdue. The caller must hold f.mu.
func (f *Fence) recordHeartbeat() {
	if f.lastHeartbeat.Monotonic.IsZero() {
		return
	}
	now := clocks.Read(f.options.WallClock)
	gap := now.Since(f.lastHeartbeat)
	f.lastHeartbeat = now
	isOverdue := f.options.Overdue != nil && f.options.Overdue()
	switch {
	case gap < f.options.Gap && !isOverdue:
		return
	case gap < f.options.Gap && !f.heldUntil.IsZero(): // the fence is active already
		f.heldUntil = now.Monotonic.Add(f.options.HoldTime)
		return
	case gap < f.options.Gap:
		f.options.Log.Info("The Lease is overdue or lost; the work waits until it is renewed, or until the operator ends", "hold", f.options.HoldTime.String())
		f.hold(now)
		return
	}
	f.options.Log.Info("The process was suspended; its work waits until its leader elector has renewed the lease or given up",
		"suspended", gap.Round(time.Millisecond).String(), "hold", f.options.HoldTime.String())
	f.hold(now)
}

// hold starts a hold. The caller must hold f.mu.
func (f *Fence) hold(now clocks.Reading) {
	f.suspensions++
	f.heldUntil = now.Monotonic.Add(f.options.HoldTime)
	select {
	case f.wakeReporter <- struct{}{}:
	default:
	}
}

// Paused reports whether the fence, or another source of pauses, stops the operator in a namespace, and why. It implements [Pauser].
func (f *Fence) Paused(namespace string) (paused bool, reason string) {
	if f.IsActive() {
		return true, pauseReason
	}
	if f.options.OtherPauses == nil {
		return false, ""
	}
	return f.options.OtherPauses.Paused(namespace)
}

// IsActive reports whether the fence is active.
func (f *Fence) IsActive() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recordHeartbeat()
	return !f.heldUntil.IsZero()
}

// SuspensionCount returns the number of suspensions since the start.
func (f *Fence) SuspensionCount() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recordHeartbeat()
	return f.suspensions
}

// Wait waits until the fence is inactive and returns the number of suspensions. It fails if the context is cancelled or the operator stops
// first.
func (f *Fence) Wait(ctx context.Context) (suspensions int64, err error) {
	for {
		f.mu.Lock()
		f.recordHeartbeat()
		held, released, suspensions := !f.heldUntil.IsZero(), f.released, f.suspensions
		f.mu.Unlock()
		if !held {
			return suspensions, nil
		}
		select {
		case <-released:
		case <-f.stopped:
			return 0, ErrStopped
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}
