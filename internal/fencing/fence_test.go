package fencing_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
)

// fixture is a running fence with an adjustable wall clock.
type fixture struct {
	*fencing.Fence
	ahead   atomic.Int64
	changes atomic.Int64
	stop    func()
}

func runFence(t *testing.T, act func(t *testing.T, s *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fixture{}
		s.Fence = fencing.New(fencing.Options{Gap: 5 * time.Second, HoldTime: 13 * time.Second, WallClock: func() time.Time {
			return time.Now().Add(time.Duration(s.ahead.Load()))
		}})
		ctx, cancel := context.WithCancel(t.Context())
		s.stop = cancel
		defer s.Start(ctx, func() { s.changes.Add(1) })()
		defer cancel()
		sleep(time.Minute)
		act(t, s)
	})
}

func (s *fixture) suspend(gap time.Duration) { s.ahead.Add(int64(gap)) }

func TestFence_ActiveAfterSuspension(t *testing.T) {
	runFence(t, func(t *testing.T, s *fixture) {
		if s.IsHeld() || s.SuspensionCount() != 0 {
			t.Fatal("the fence is active before a suspension")
		}
		s.suspend(6 * time.Second)
		if paused, why := s.Paused("ns"); !paused || why == "" {
			t.Error("the first query does not report the suspension")
		}
		if s.SuspensionCount() != 1 {
			t.Errorf("%d suspensions", s.SuspensionCount())
		}
		start := time.Now()
		n, err := s.Wait(t.Context())
		if err != nil || n != 1 {
			t.Errorf("Wait returned %d, %v", n, err)
		}
		if held := time.Since(start); held < 13*time.Second || held > 14*time.Second {
			t.Errorf("the fence was active for %s", held)
		}
		synctest.Wait()
		if s.IsHeld() || s.changes.Load() != 2 {
			t.Errorf("held %t, %d changes", s.IsHeld(), s.changes.Load())
		}
	})
}

func TestFence_IgnoresShortGaps(t *testing.T) {
	runFence(t, func(t *testing.T, s *fixture) {
		sleep(time.Second / 2) // between two heartbeats
		for range 10 {
			s.suspend(3900 * time.Millisecond)
			sleep(time.Second)
		}
		if s.SuspensionCount() != 0 || s.changes.Load() != 0 {
			t.Errorf("%d suspensions, %d changes", s.SuspensionCount(), s.changes.Load())
		}
	})
}

func TestFence_SecondSuspensionExtendsTheHold(t *testing.T) {
	runFence(t, func(t *testing.T, s *fixture) {
		s.suspend(time.Hour)
		sleep(10 * time.Second)
		s.suspend(time.Hour)
		sleep(10 * time.Second)
		if !s.IsHeld() || s.SuspensionCount() != 2 || s.changes.Load() != 1 {
			t.Errorf("held %t, %d suspensions, %d changes", s.IsHeld(), s.SuspensionCount(), s.changes.Load())
		}
		sleep(10 * time.Second)
		if s.IsHeld() {
			t.Error("the fence does not become inactive")
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
		if err := <-result; !errors.Is(err, fencing.ErrStopped) {
			t.Errorf("Wait returned %v", err)
		}
		sleep(time.Hour)
		if !s.IsHeld() {
			t.Error("the fence becomes inactive after the stop")
		}
	})
}

func TestFence_WaitEndsWithItsContext(t *testing.T) {
	runFence(t, func(t *testing.T, s *fixture) {
		s.suspend(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait returned %v", err)
		}
	})
}

func sleep(pause time.Duration) { <-time.After(pause) }
