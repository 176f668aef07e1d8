package suspension_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/suspension"
)

// fixture is a running fence with an adjustable wall clock.
type fixture struct {
	*suspension.Fence
	ahead   atomic.Int64
	overdue atomic.Bool
	changes atomic.Int64
	stop    func()
}

func runFence(t *testing.T, act func(t *testing.T, s *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fixture{}
		s.Fence = suspension.New(suspension.Options{Gap: 5 * time.Second, HoldTime: 13 * time.Second, Overdue: s.overdue.Load, WallClock: func() time.Time {
			return time.Now().Add(time.Duration(s.ahead.Load()))
		}})
		ctx, cancel := context.WithCancel(t.Context())
		s.stop = cancel
		defer s.StartHeartbeat(ctx, func() { s.changes.Add(1) })()
		defer cancel()
		sleep(time.Minute)
		act(t, s)
	})
}

func (s *fixture) suspend(gap time.Duration) { s.ahead.Add(int64(gap)) }

func TestFence_ActiveAfterSuspension(t *testing.T) {
	runFence(t, func(t *testing.T, s *fixture) {
		if s.IsActive() || s.SuspensionCount() != 0 {
			t.Fatal("the fence is active before a suspension, want inactive")
		}
		s.suspend(6 * time.Second)
		if paused, why := s.Paused("ns"); !paused || why == "" {
			t.Error("the fence is inactive after a suspension, want active")
		}
		if s.SuspensionCount() != 1 {
			t.Errorf("SuspensionCount() = %d, want 1", s.SuspensionCount())
		}
		start := time.Now()
		n, err := s.Wait(t.Context())
		if err != nil || n != 1 {
			t.Errorf("Wait() = %d, %v, want 1, nil", n, err)
		}
		if hold := time.Since(start); hold < 13*time.Second || hold > 14*time.Second {
			t.Errorf("time of the hold = %s, want 13s to 14s", hold)
		}
		synctest.Wait()
		if s.IsActive() || s.changes.Load() != 2 {
			t.Errorf("IsActive() = %t, state changes = %d, want false and 2", s.IsActive(), s.changes.Load())
		}
	})
}

func TestFence_IgnoresShortGaps(t *testing.T) {
	runFence(t, func(t *testing.T, s *fixture) {
		sleep(time.Second / 2) // this time is between two heartbeats
		for range 10 {
			s.suspend(3900 * time.Millisecond)
			sleep(time.Second)
		}
		if s.SuspensionCount() != 0 || s.changes.Load() != 0 {
			t.Errorf("SuspensionCount() = %d, state changes = %d, want 0 and 0", s.SuspensionCount(), s.changes.Load())
		}
	})
}

func TestFence_SecondSuspensionExtendsTheHold(t *testing.T) {
	runFence(t, func(t *testing.T, s *fixture) {
		s.suspend(time.Hour)
		sleep(10 * time.Second)
		s.suspend(time.Hour)
		sleep(10 * time.Second)
		if !s.IsActive() || s.SuspensionCount() != 2 || s.changes.Load() != 1 {
			t.Errorf("IsActive() = %t, SuspensionCount() = %d, state changes = %d, want true, 2 and 1", s.IsActive(), s.SuspensionCount(), s.changes.Load())
		}
		sleep(10 * time.Second)
		if s.IsActive() {
			t.Error("the fence is active after the hold, want inactive")
		}
	})
}

func TestFence_StaysActiveAfterStop(t *testing.T) {
	runFence(t, func(t *testing.T, s *fixture) {
		s.suspend(time.Hour)
		result := make(chan error, 1)
		go func() {
			_, err := s.Wait(t.Context())
			result <- err
		}()
		sleep(time.Second)
		s.stop()
		if err := <-result; !errors.Is(err, suspension.ErrStopped) {
			t.Errorf("error of Wait = %v, want ErrStopped", err)
		}
		sleep(time.Hour)
		if !s.IsActive() {
			t.Error("the fence is inactive after the stop, want active")
		}
	})
}

// An operator can end with an error although its context has not ended. Its daemons may still wait to write their last changes.
func TestFence_WaitEndsWithTheHeartbeat(t *testing.T) {
	for name, stopFirst := range map[string]bool{"before the wait": true, "during the wait": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fixture{}
				s.Fence = suspension.New(suspension.Options{Gap: 5 * time.Second, HoldTime: 13 * time.Second, Overdue: s.overdue.Load})
				stop := s.StartHeartbeat(t.Context(), func() {})
				s.overdue.Store(true)
				sleep(time.Minute)
				if stopFirst {
					stop()
				} else {
					time.AfterFunc(time.Second, stop)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if _, err := s.Wait(ctx); !errors.Is(err, suspension.ErrStopped) {
					t.Errorf("error of Wait = %v, want ErrStopped", err)
				}
			})
		})
	}
}

func TestFence_WaitEndsWithItsContext(t *testing.T) {
	runFence(t, func(t *testing.T, s *fixture) {
		s.suspend(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error of Wait = %v, want DeadlineExceeded", err)
		}
	})
}

func TestFence_SecondStartHasNoEffect(t *testing.T) {
	runFence(t, func(t *testing.T, s *fixture) {
		ctx, cancel := context.WithCancel(t.Context())
		stopSecond := s.StartHeartbeat(ctx, func() { t.Error("the callback of the second start was called") })
		s.suspend(time.Hour)
		cancel()
		sleep(20 * time.Second)
		if s.IsActive() || s.changes.Load() != 2 {
			t.Errorf("IsActive() = %t, state changes = %d, want false and 2", s.IsActive(), s.changes.Load())
		}
		stopSecond()
		if s.suspend(time.Hour); !s.IsActive() {
			t.Error("the fence is inactive after the second start has stopped, want active")
		}
		s.stop()
		synctest.Wait()
	})
}

func sleep(pause time.Duration) { <-time.After(pause) }

// A Lease can be overdue although the process was not suspended, for example if the request for its renewal does not return.
func TestFence_ActiveWhileTheLeaseIsOverdue(t *testing.T) {
	runFence(t, func(t *testing.T, s *fixture) {
		s.overdue.Store(true)
		if !s.IsActive() || s.SuspensionCount() != 1 {
			t.Errorf("IsActive() = %t, SuspensionCount() = %d, want true and 1 immediately", s.IsActive(), s.SuspensionCount())
		}
		waiting, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.Wait(waiting); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait() = %v while the Lease is overdue, want the error of the context", err)
		}
		s.overdue.Store(false)
		start := time.Now()
		if n, err := s.Wait(t.Context()); err != nil || n != 1 {
			t.Errorf("Wait() = %d, %v, want 1, nil", n, err)
		}
		if hold := time.Since(start); hold < 12*time.Second || hold > 14*time.Second {
			t.Errorf("time of the hold after the renewal = %s, want 12s to 14s", hold)
		}
		synctest.Wait()
		if s.changes.Load() != 2 {
			t.Errorf("%d changes, want 2", s.changes.Load())
		}
	})
}
