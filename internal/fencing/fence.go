package fencing

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// ErrSuspended means that the process was suspended since the state was read from which a write was computed.
var ErrSuspended = errors.New("the process was suspended, and another one may have taken over: the write is held")

// ErrStopped means that the operator was stopped before the fence let a write pass.
var ErrStopped = errors.New("the operator was stopped after its process was suspended: nothing is written any more")

const pauseReason = "the process was suspended; it waits until its leader elector has renewed the lease or given up"

// heartbeats is how many heartbeats there are in the shortest gap that counts as a suspension.
const heartbeatsPerGap = 5

// A Pauser reports where the operator is paused, and why.
type Pauser interface {
	Paused(namespace string) (paused bool, why string)
}

// Options configure a [Fence].
type Options struct {
	// Gap is the shortest time without a heartbeat that counts as a suspension.
	Gap time.Duration
	// Hold is how long the fence holds after a suspension.
	HoldTime time.Duration
	// Wall is the wall clock. Default: that of the machine.
	WallClock func() time.Time
	// Next adds other pauses; nil adds nothing.
	OtherPauses Pauser
	Log         logr.Logger
}

// A Fence recognises that the process was suspended. It is safe for concurrent use. It holds nothing before [Fence.Start].
type Fence struct {
	options      Options
	wakeReporter chan struct{} // has the loop report

	mu            sync.Mutex
	lastHeartbeat instant // of the heartbeat; zero: it has not begun
	suspensions   int64
	heldUntil     time.Time     // when the hold ends; zero: nothing is held
	reported      bool          // the subscriber knows of the hold
	released      chan struct{} // closed when the hold ends
	stopped       chan struct{} // closed when the operator has stopped
}

// An instant is a moment by two clocks. The monotonic one stands still on some systems while the machine sleeps; the wall clock
// does not.
type instant struct{ monotonic, wall time.Time }

func (i instant) since(earlier instant) time.Duration {
	return max(i.monotonic.Sub(earlier.monotonic), i.wall.Sub(earlier.wall))
}

// New returns a fence.
func New(options Options) *Fence {
	if options.WallClock == nil {
		options.WallClock = time.Now
	}
	return &Fence{options: options, wakeReporter: make(chan struct{}, 1), released: make(chan struct{}), stopped: make(chan struct{})}
}

// Start records the heartbeat until stop is called, which waits for the end. It calls changed when a hold has begun and when it
// has ended; a hold does not end before changed has returned from its beginning, and not after the context has ended.
func (f *Fence) Start(ctx context.Context, changed func()) (stop func()) {
	f.mu.Lock()
	f.lastHeartbeat = f.now()
	f.mu.Unlock()
	beating, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		f.runHeartbeat(ctx, beating, changed)
	}()
	return func() {
		cancel()
		<-stopped
	}
}

// beat continues after the end of the operator's context: its handlers may still be at work.
func (f *Fence) runHeartbeat(ctx, beating context.Context, changed func()) {
	ticker := time.NewTicker(max(f.options.Gap/heartbeatsPerGap, time.Millisecond))
	defer ticker.Stop()
	running := ctx.Done()
	for {
		select {
		case <-beating.Done():
			f.mu.Lock()
			f.lastHeartbeat = instant{}
			f.mu.Unlock()
			return
		case <-running:
			running = nil
			close(f.stopped)
		case <-ticker.C:
		case <-f.wakeReporter:
		}
		if f.updateHold(ctx) {
			changed()
		}
	}
}

// report ends a hold whose time is over, and returns whether there is something new.
func (f *Fence) updateHold(ctx context.Context) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recordHeartbeat()
	switch held := !f.heldUntil.IsZero(); {
	case held && !f.reported:
		f.reported = true
		return true
	case held && ctx.Err() == nil && !time.Now().Before(f.heldUntil):
		f.options.Log.Info("The hold after the suspension is over")
		f.heldUntil, f.reported = time.Time{}, false
		close(f.released)
		f.released = make(chan struct{})
		return true
	}
	return false
}

func (f *Fence) now() instant {
	return instant{monotonic: time.Now(), wall: f.options.WallClock().Round(0)}
}

// observe compares the time with the last heartbeat and records another one.
func (f *Fence) recordHeartbeat() {
	if f.lastHeartbeat.monotonic.IsZero() {
		return
	}
	now := f.now()
	gap := now.since(f.lastHeartbeat)
	f.lastHeartbeat = now
	if gap < f.options.Gap {
		return
	}
	f.options.Log.Info("The process was suspended; its work is held until its leader elector has renewed the lease or given up",
		"suspended", gap.Round(time.Millisecond).String(), "hold", f.options.HoldTime.String())
	f.suspensions++
	f.heldUntil = now.monotonic.Add(f.options.HoldTime)
	select {
	case f.wakeReporter <- struct{}{}:
	default:
	}
}

// Paused reports whether the operator is paused in a namespace, and why: by the fence, or otherwise. It implements [Pauser].
func (f *Fence) Paused(namespace string) (paused bool, reason string) {
	if f.IsHeld() {
		return true, pauseReason
	}
	if f.options.OtherPauses == nil {
		return false, ""
	}
	return f.options.OtherPauses.Paused(namespace)
}

// Held reports whether the fence holds.
func (f *Fence) IsHeld() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recordHeartbeat()
	return !f.heldUntil.IsZero()
}

// Suspensions counts the suspensions until now.
func (f *Fence) SuspensionCount() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recordHeartbeat()
	return f.suspensions
}

// Wait returns when the fence does not hold, with the number of suspensions until then. It fails when the context ends or the
// operator has stopped before.
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
