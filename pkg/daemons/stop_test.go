package daemons_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// B-42 DAE-26 DAE-50: the context ends at once, with its cause.
func TestStopTellsWhy(t *testing.T) {
	mine := errors.New("mine")
	for _, test := range []struct {
		name string
		stop func(*scene)
		want error
	}{
		{"DAE-05 deleted", func(s *scene) { s.StopAll(key.UID, daemons.ErrDeleted) }, daemons.ErrDeleted},
		{"DAE-04 filtered out", func(s *scene) { s.Stop(key, daemons.ErrFilteredOut) }, daemons.ErrFilteredOut},
		{"DAE-40 paused", func(s *scene) { s.Pause() }, daemons.ErrPaused},
		{"DAE-41 shut down", func(s *scene) { s.stop() }, daemons.ErrShutdown},
		{"SE-18 gone", func(s *scene) { s.Forget(key.UID) }, daemons.ErrDeleted},
		{"a cause of one's own", func(s *scene) { s.Stop(key, mine) }, mine},
		{"DAE-52 the first cause counts", func(s *scene) {
			s.Stop(key, daemons.ErrFilteredOut)
			s.StopAll(key.UID, daemons.ErrDeleted)
		}, daemons.ErrFilteredOut},
	} {
		for _, timer := range []*daemons.Timer{nil, {Interval: time.Hour}} {
			t.Run(test.name, func(t *testing.T) {
				play(t, daemons.Options{}, func(s *scene) {
					var cause error
					s.ensure(daemons.Task{Timer: timer, Run: s.noting(func(ctx context.Context, _ int) error {
						<-ctx.Done()
						cause = context.Cause(ctx)
						return nil
					})})
					before := time.Now()
					test.stop(s)
					synctest.Wait()
					s.same("DAE-52 cause", errors.Is(cause, test.want), true)
					s.same("B-42 time until the context has ended", time.Since(before), time.Duration(0))
					s.same("busy", s.Busy(key.UID), false)
				})
			})
		}
	}
}

// DAE-51: what a run has left behind notices its end.
func TestContextEndsWithTheRun(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		noticed := false
		s.ensure(daemons.Task{Run: s.noting(func(ctx context.Context, _ int) error {
			context.AfterFunc(ctx, func() { noticed = true })
			return nil
		})})
		s.same("DAE-51 noticed", noticed, true)
	})
}

// DAE-20 to DAE-25, DAE-42: for how long a stopping run is waited for.
func TestStages(t *testing.T) {
	d := func(n float64) *time.Duration { return new(time.Duration(n * float64(time.Second))) }
	for _, test := range []struct {
		name             string
		backoff, timeout *time.Duration
		takes            time.Duration // to stop
		free             time.Duration // when the object is
		abandoned        float64
	}{
		{"DAE-20 ends at once", d(10), d(20), 0, 0, 0},
		{"DAE-21 ends within the backoff", d(10), d(20), 5 * time.Second, 5 * time.Second, 0},
		{"DAE-22 ends within the timeout", d(10), d(20), 25 * time.Second, 25 * time.Second, 0},
		{"DAE-23 abandoned", d(10), d(20), time.Hour, 30 * time.Second, 1},
		{"DAE-23 abandoned without a backoff", nil, d(20), time.Hour, 20 * time.Second, 1},
		{"DAE-24 no timeout: waited for", nil, nil, 90 * time.Minute, 90 * time.Minute, 0},
		{"DAE-25 a backoff, no timeout: waited for", d(10), nil, 90 * time.Minute, 90 * time.Minute, 0},
		{"DAE-30 a timeout of zero leaves the chance of an instant exit", nil, d(0), time.Millisecond, time.Millisecond, 0},
		{"DAE-30 a timeout of zero", d(0), d(0), time.Hour, 10 * time.Millisecond, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, daemons.Options{}, func(s *scene) {
				s.ensure(daemons.Task{
					Kind: s.kind, CancellationBackoff: test.backoff, CancellationTimeout: test.timeout,
					Run: s.noting(func(ctx context.Context, _ int) error {
						<-ctx.Done()
						<-time.After(test.takes)
						return nil
					}),
				})
				before := time.Now()
				s.StopAll(key.UID, daemons.ErrDeleted)
				if err := s.Wait(s.Context(), key.UID); err != nil {
					s.Fatal(err)
				}
				s.same("free after", time.Since(before), test.free)
				synctest.Wait()
				s.same("busy", s.Busy(key.UID), false)
				s.same("the owner is told", s.ended(), 1)
				s.same("B-42 counted", value(t, metrics.Abandoned.WithLabelValues(s.kind, key.ID)), test.abandoned)
				pass(2 * time.Hour)
				s.same("the owner is told once", s.ended(), 0)
				s.same("not ended by itself", s.Ended(key), false)
			})
		})
	}
}

// DAE-28 TIM-18: a running invocation of a timer is waited for without end.
func TestTimerIsWaitedFor(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		s.ensure(daemons.Task{Timer: &daemons.Timer{Interval: time.Second}, Run: s.noting(deaf(5 * time.Hour))})
		s.StopAll(key.UID, daemons.ErrDeleted)
		pass(4 * time.Hour)
		s.same("TIM-18 busy", s.Busy(key.UID), true)
		pass(2 * time.Hour)
		s.same("TIM-18 busy at the end", s.Busy(key.UID), false)
		s.same("invocations", len(s.seen()), 1)
	})
}

// DAE-27: all runs of an object are stopped at the same time, those of others are not.
func TestStopAll(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		for _, k := range []daemons.Key{{UID: "a", ID: "1"}, {UID: "a", ID: "2"}, {UID: "b", ID: "1"}} {
			if err := s.Ensure(k, daemons.Task{Run: func(ctx context.Context, n attempt) error {
				<-ctx.Done()
				<-time.After(time.Second)
				return nil
			}}); err != nil {
				s.Fatal(err)
			}
		}
		synctest.Wait()
		s.StopAll("a", daemons.ErrDeleted)
		s.same("busy while they stop", s.Busy("a"), true)
		pass(time.Second)
		s.same("DAE-27 busy", s.Busy("a"), false)
		s.same("others are", s.Busy("b"), true)
	})
}

// DAE-10 TIM-15 SE-13: what does not run is stopped at once, whatever it waits for.
func TestStopOfWhatDoesNotRun(t *testing.T) {
	failing := func(context.Context, int) error { return errBoom }
	for _, test := range []struct {
		name  string
		task  daemons.Task
		do    func(context.Context, int) error
		calls int
	}{
		{"DAE-10 initial delay", daemons.Task{InitialDelay: time.Hour}, nil, 0},
		{"DAE-12 backoff", daemons.Task{}, failing, 1},
		{"TIM-15 interval", daemons.Task{Timer: &daemons.Timer{Interval: time.Hour}}, nil, 1},
		{"TIM-15 idle", daemons.Task{Timer: &daemons.Timer{Idle: time.Hour}}, nil, 0},
		{"TIM-15 a retry of a timer", daemons.Task{Timer: &daemons.Timer{Interval: time.Hour}}, failing, 1},
		{"SE-13 a timer that waits for a change", daemons.Task{Timer: &daemons.Timer{Idle: time.Second}}, nil, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, daemons.Options{}, func(s *scene) {
				test.task.Run = s.noting(test.do)
				s.ensure(test.task)
				pass(30 * time.Second)
				s.StopAll(key.UID, daemons.ErrDeleted)
				s.same("busy", s.Busy(key.UID), false)
				s.same("left", daemons.Jobs(s.Supervisor), 0)
				s.Touch(key.UID)
				pass(10 * time.Hour)
				s.same("invocations", len(s.seen()), test.calls)
				s.same("nobody has to be told what they have done", s.ended(), 0)
			})
		})
	}
}

// DAE-09 SE-12 B-40: what is asked for while it stops is started when the old run has ended.
func TestEnsureWhileStopping(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		task := daemons.Task{CancellationTimeout: new(time.Second), Run: s.noting(func(ctx context.Context, _ int) error {
			<-ctx.Done()
			<-time.After(10 * time.Second)
			return nil
		})}
		s.ensure(task)
		s.Stop(key, daemons.ErrFilteredOut)
		s.ensure(task)
		pass(5 * time.Second)
		s.same("DAE-02 never two, though the first is abandoned", s.times(), seconds(0))
		s.same("the owner is told", s.ended(), 1)
		pass(5 * time.Second)
		s.same("B-40 started again", s.times(), seconds(0, 10))
		s.same("busy", s.Busy(key.UID), true)

		s.Stop(key, daemons.ErrFilteredOut)
		s.ensure(task)
		s.Stop(key, daemons.ErrFilteredOut)
		pass(time.Hour)
		s.same("the last word counts", s.times(), seconds(0, 10))
		s.same("left", daemons.Jobs(s.Supervisor), 0)
	})
}

// DAE-15: what has stopped because it was told to can be started again, however it has ended.
func TestStoppedIsNotEnded(t *testing.T) {
	for _, err := range []error{nil, errBoom} {
		play(t, daemons.Options{}, func(s *scene) {
			task := daemons.Task{Run: s.noting(func(ctx context.Context, _ int) error {
				<-ctx.Done()
				return err
			})}
			s.ensure(task)
			s.Stop(key, daemons.ErrFilteredOut)
			synctest.Wait()
			s.same("DAE-15 ended", s.Ended(key), false)
			s.ensure(task)
			s.same("DAE-15 runs", len(s.seen()), 2)
		})
	}
}

// DAE-41 to DAE-43: the end of the supervisor takes a bounded time, and nothing starts afterwards.
func TestShutdown(t *testing.T) {
	for _, test := range []struct {
		name    string
		options daemons.Options
		task    daemons.Task
		before  func(*scene)
		takes   time.Duration
		want    time.Duration
	}{
		{"DAE-41 all is waited for", daemons.Options{}, daemons.Task{}, nil, 2 * time.Second, 2 * time.Second},
		{"DAE-43 for five seconds", daemons.Options{}, daemons.Task{}, nil, time.Hour, 5 * time.Second},
		{"DAE-43 for the grace period", daemons.Options{GracePeriod: time.Second}, daemons.Task{}, nil, time.Hour, time.Second},
		{"DAE-42 for the timeout", daemons.Options{},
			daemons.Task{CancellationBackoff: new(10 * time.Second), CancellationTimeout: new(20 * time.Second)},
			nil, time.Hour, 30 * time.Second},
		{"a timer", daemons.Options{}, daemons.Task{Timer: &daemons.Timer{Interval: time.Hour}}, nil, time.Hour, 5 * time.Second},
		{"one that is stopping", daemons.Options{}, daemons.Task{CancellationTimeout: new(20 * time.Second)},
			func(s *scene) { s.Stop(key, daemons.ErrDeleted); pass(5 * time.Second) }, time.Hour, 15 * time.Second},
		{"one that was abandoned", daemons.Options{}, daemons.Task{CancellationTimeout: new(time.Second)},
			func(s *scene) { s.Stop(key, daemons.ErrDeleted); pass(5 * time.Second) }, time.Hour, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, test.options, func(s *scene) {
				test.task.Run = s.noting(func(ctx context.Context, _ int) error {
					<-ctx.Done()
					<-time.After(test.takes)
					return nil
				})
				s.ensure(test.task)
				if test.before != nil {
					test.before(s)
				}
				s.ended()
				before := time.Now()
				s.stop()
				if err := <-s.done; err != nil {
					s.Error(err)
				}
				s.done <- nil
				s.same("the end takes", time.Since(before), test.want)
				s.ensure(daemons.Task{Run: s.noting(nil)})
				s.Touch(key.UID)
				s.Resume()
				pass(2 * time.Hour)
				s.same("invocations", len(s.seen()), 1)
				s.same("DAE-44 nobody is told", s.ended(), 0)
				s.same("left", daemons.Jobs(s.Supervisor), 0)
			})
		})
	}
}

// A run of an object that is gone is nobody's to wait for: it is counted, and that is all.
func TestForget(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		s.ensure(daemons.Task{Kind: s.kind, Run: s.noting(deaf(time.Hour))})
		s.Forget(key.UID)
		pass(4 * time.Second)
		s.same("busy", s.Busy(key.UID), true)
		pass(time.Second)
		s.same("busy after the grace period", s.Busy(key.UID), false)
		s.same("abandoned", value(t, metrics.Abandoned.WithLabelValues(s.kind, key.ID)), 1.0)
		pass(time.Hour)
		s.same("left", daemons.Jobs(s.Supervisor), 0)
		s.same("the owner is not told", s.ended(), 0)
	})
}

// Wait waits no longer than it is asked to.
func TestWait(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		if err := s.Wait(s.Context(), "nobody"); err != nil {
			s.Errorf("an object that is not known: %v", err)
		}
		s.ensure(daemons.Task{Run: s.noting(untilStopped)})
		ctx, cancel := context.WithTimeoutCause(s.Context(), time.Second, errBoom)
		defer cancel()
		s.same("the cause of its context", errors.Is(s.Wait(ctx, key.UID), errBoom), true)
	})
}

func TestStartTwice(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		if err := s.Start(s.Context()); err == nil {
			s.Error("a second Start has no error")
		}
	})
	if err := daemons.New(daemons.Options{GracePeriod: -1}).Start(t.Context()); err == nil {
		t.Error("a negative grace period has no error")
	}
}

// Before the start tasks are taken, but nothing runs.
func TestEnsureBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := daemons.New(daemons.Options{})
		calls := 0
		if err := s.Ensure(key, daemons.Task{Run: func(context.Context, attempt) error { calls++; return nil }}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if calls != 0 {
			t.Error("invoked before the start")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Start(ctx) }()
		pass(time.Minute)
		if calls != 1 {
			t.Errorf("%d invocations, want 1", calls)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNeedLeaderElection(t *testing.T) {
	for _, test := range []struct {
		option *bool
		want   bool
	}{{nil, true}, {new(true), true}, {new(false), false}} {
		if got := daemons.New(daemons.Options{LeaderElection: test.option}).NeedLeaderElection(); got != test.want {
			t.Errorf("leader election = %t, want %t", got, test.want)
		}
	}
}
