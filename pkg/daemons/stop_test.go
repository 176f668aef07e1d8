package daemons_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// B-42 DAE-26 DAE-50
func TestStop_CancelsContextWithCause(t *testing.T) {
	mine := errors.New("mine")
	for _, test := range []struct {
		name string
		stop func(*supervisorTest)
		want error
	}{
		{"DAE-05 deleted", func(s *supervisorTest) { s.StopAll(key.UID, daemons.ErrDeleted) }, daemons.ErrDeleted},
		{"DAE-04 filtered out", func(s *supervisorTest) { s.Stop(key, daemons.ErrFilteredOut) }, daemons.ErrFilteredOut},
		{"DAE-40 paused", func(s *supervisorTest) { s.Pause() }, daemons.ErrPaused},
		{"DAE-41 shut down", func(s *supervisorTest) { s.cancel() }, daemons.ErrShutdown},
		{"SE-18 forgotten", func(s *supervisorTest) { s.Forget(key.UID) }, daemons.ErrDeleted},
		{"a custom cause", func(s *supervisorTest) { s.Stop(key, mine) }, mine},
		{"DAE-52 the first cause is kept", func(s *supervisorTest) {
			s.Stop(key, daemons.ErrFilteredOut)
			s.StopAll(key.UID, daemons.ErrDeleted)
		}, daemons.ErrFilteredOut},
	} {
		for _, timer := range []*daemons.Timer{nil, {Interval: time.Hour}} {
			t.Run(test.name, func(t *testing.T) {
				runTest(t, daemons.Options{}, func(s *supervisorTest) {
					var cause error
					s.mustEnsure(daemons.Task{Timer: timer, Run: s.recordCalls(func(ctx context.Context, _ int) error {
						<-ctx.Done()
						cause = context.Cause(ctx)
						return nil
					})})
					before := time.Now()
					test.stop(s)
					synctest.Wait()
					s.equal("DAE-52 cause", errors.Is(cause, test.want), true)
					s.equal("B-42 time until the context is cancelled", time.Since(before), time.Duration(0))
					s.equal("busy", s.Busy(key.UID), false)
				})
			})
		}
	}
}

func TestStopWaiting_KeepsRunningFunctions(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		ensure := func(id string, task daemons.Task) {
			t.Helper()
			if err := s.Ensure(daemons.Key{UID: key.UID, ID: id}, task); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		calls := map[string]int{}
		counted := func(id string, fn func(context.Context) error) func(context.Context, progress.Attempt) error {
			return func(ctx context.Context, _ progress.Attempt) error {
				calls[id]++
				return fn(ctx)
			}
		}
		ends := func(context.Context) error { return nil }
		ensure("running", daemons.Task{Run: counted("running", func(ctx context.Context) error { <-ctx.Done(); return nil })})
		ensure("ended", daemons.Task{Run: counted("ended", ends)})
		ensure("timer", daemons.Task{Timer: &daemons.Timer{Interval: time.Minute}, Run: counted("timer", ends)})
		ensure("retried", daemons.Task{Run: counted("retried", func(context.Context) error { return progress.Temporary(errBoom, time.Minute) })})
		s.StopWaiting(key.UID)
		advance(time.Hour)
		s.equal("calls", calls, map[string]int{"running": 1, "ended": 1, "timer": 1, "retried": 1})
		s.equal("the running function continues", s.Busy(key.UID), true)
		needs := map[string]bool{}
		for id := range calls {
			needs[id] = s.NeedsStart(daemons.Key{UID: key.UID, ID: id})
		}
		s.equal("can be started again", needs, map[string]bool{"running": false, "ended": false, "timer": true, "retried": true})
		s.takeEnds()
	})
}

// DAE-51: the context of a run is canceled when the run ends, so that its goroutines can end.
func TestRun_ContextIsCancelledAtItsEnd(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		noticed := false
		s.mustEnsure(daemons.Task{Run: s.recordCalls(func(ctx context.Context, _ int) error {
			context.AfterFunc(ctx, func() { noticed = true })
			return nil
		})})
		s.equal("DAE-51 noticed", noticed, true)
	})
}

// DAE-20 to DAE-25, DAE-42
func TestStop_BackoffAndTimeout(t *testing.T) {
	d := func(n float64) *time.Duration { return new(time.Duration(n * float64(time.Second))) }
	for _, test := range []struct {
		name             string
		backoff, timeout *time.Duration
		takes            time.Duration // duration of the run after Stop
		free             time.Duration // time until the object is not busy
		abandoned        float64
	}{
		{"DAE-20 the run ends immediately", d(10), d(20), 0, 0, 0},
		{"DAE-21 the run ends within the backoff", d(10), d(20), 5 * time.Second, 5 * time.Second, 0},
		{"DAE-22 the run ends within the timeout", d(10), d(20), 25 * time.Second, 25 * time.Second, 0},
		{"DAE-23 abandoned", d(10), d(20), time.Hour, 30 * time.Second, 1},
		{"DAE-23 the run is abandoned without a backoff", nil, d(20), time.Hour, 20 * time.Second, 1},
		{"DAE-24 without a timeout, the run is not abandoned", nil, nil, 90 * time.Minute, 90 * time.Minute, 0},
		{"DAE-25 with only a backoff, the run is not abandoned", d(10), nil, 90 * time.Minute, 90 * time.Minute, 0},
		{"DAE-30 a timeout of zero allows an immediate exit", nil, d(0), time.Millisecond, time.Millisecond, 0},
		{"DAE-30 a timeout of zero", d(0), d(0), time.Hour, 10 * time.Millisecond, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				s.mustEnsure(daemons.Task{
					Kind: s.kind, Daemon: daemons.Daemon{CancellationBackoff: test.backoff, CancellationTimeout: test.timeout},
					Run: s.recordCalls(func(ctx context.Context, _ int) error {
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
				s.equal("time until the object is not busy", time.Since(before), test.free)
				synctest.Wait()
				s.equal("busy", s.Busy(key.UID), false)
				s.equal("OnEnd is called", s.takeEnds(), 1)
				s.equal("B-42 counted", metricValue(t, metrics.BackgroundAbandoned.WithLabelValues(s.kind, key.ID)), test.abandoned)
				advance(2 * time.Hour)
				s.equal("OnEnd is not called again", s.takeEnds(), 0)
				s.equal("not ended permanently", s.Ended(key), false)
			})
		})
	}
}

// DAE-28 TIM-18: the supervisor waits for a running timer without limit.
func TestStop_WaitsForTimer(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		s.mustEnsure(daemons.Task{Timer: &daemons.Timer{Interval: time.Second}, Run: s.recordCalls(ignoreContext(5 * time.Hour))})
		s.StopAll(key.UID, daemons.ErrDeleted)
		advance(4 * time.Hour)
		s.equal("TIM-18 busy", s.Busy(key.UID), true)
		advance(2 * time.Hour)
		s.equal("TIM-18 busy at the end", s.Busy(key.UID), false)
		s.equal("invocations", len(s.recordedCalls()), 1)
	})
}

// DAE-27: StopAll stops all runs of one object.
func TestStopAll(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
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
		s.equal("busy during the stop", s.Busy("a"), true)
		advance(time.Second)
		s.equal("DAE-27 busy", s.Busy("a"), false)
		s.equal("other object is busy", s.Busy("b"), true)
	})
}

// DAE-10 TIM-15 SE-13: a job without a run stops immediately.
func TestStop_IdleJobs(t *testing.T) {
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
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				test.task.Run = s.recordCalls(test.do)
				s.mustEnsure(test.task)
				advance(30 * time.Second)
				s.StopAll(key.UID, daemons.ErrDeleted)
				s.equal("busy", s.Busy(key.UID), false)
				s.equal("number of jobs", daemons.Jobs(s.Supervisor), 0)
				s.Touch(key.UID)
				advance(10 * time.Hour)
				s.equal("invocations", len(s.recordedCalls()), test.calls)
				s.equal("OnEnd is not called", s.takeEnds(), 0)
			})
		})
	}
}

// DAE-09 SE-12 B-40: if a task is added during a stop, it starts when the old run has ended.
func TestEnsure_WhileStopping(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		task := daemons.Task{Daemon: daemons.Daemon{CancellationTimeout: new(time.Second)}, Run: s.recordCalls(func(ctx context.Context, _ int) error {
			<-ctx.Done()
			<-time.After(10 * time.Second)
			return nil
		})}
		s.mustEnsure(task)
		s.Stop(key, daemons.ErrFilteredOut)
		s.mustEnsure(task)
		advance(5 * time.Second)
		s.equal("DAE-02 times of runs while the abandoned run continues", s.callTimes(), seconds(0))
		s.equal("OnEnd is called", s.takeEnds(), 1)
		advance(5 * time.Second)
		s.equal("B-40 started again", s.callTimes(), seconds(0, 10))
		s.equal("busy", s.Busy(key.UID), true)

		s.Stop(key, daemons.ErrFilteredOut)
		s.mustEnsure(task)
		s.Stop(key, daemons.ErrFilteredOut)
		advance(time.Hour)
		s.equal("times of runs of the last task", s.callTimes(), seconds(0, 10))
		s.equal("number of jobs", daemons.Jobs(s.Supervisor), 0)
	})
}

// DAE-15: a stopped task can start again after any outcome.
func TestStop_AllowsRestart(t *testing.T) {
	for _, err := range []error{nil, errBoom} {
		runTest(t, daemons.Options{}, func(s *supervisorTest) {
			task := daemons.Task{Run: s.recordCalls(func(ctx context.Context, _ int) error {
				<-ctx.Done()
				return err
			})}
			s.mustEnsure(task)
			s.Stop(key, daemons.ErrFilteredOut)
			synctest.Wait()
			s.equal("DAE-15 ended", s.Ended(key), false)
			s.mustEnsure(task)
			s.equal("DAE-15 runs", len(s.recordedCalls()), 2)
		})
	}
}

// DAE-41 to DAE-43: the shutdown takes a limited time, and no task starts afterwards.
func TestShutdown(t *testing.T) {
	for _, test := range []struct {
		name    string
		options daemons.Options
		task    daemons.Task
		before  func(*supervisorTest)
		takes   time.Duration
		want    time.Duration
	}{
		{"DAE-41 the run ends earlier", daemons.Options{}, daemons.Task{}, nil, 2 * time.Second, 2 * time.Second},
		{"DAE-43 default grace period", daemons.Options{}, daemons.Task{}, nil, time.Hour, 5 * time.Second},
		{"DAE-43 custom grace period", daemons.Options{GracePeriod: time.Second}, daemons.Task{}, nil, time.Hour, time.Second},
		{"DAE-42 timeout of a daemon", daemons.Options{},
			daemons.Task{Daemon: daemons.Daemon{CancellationBackoff: new(10 * time.Second), CancellationTimeout: new(20 * time.Second)}},
			nil, time.Hour, 30 * time.Second},
		{"a timer", daemons.Options{}, daemons.Task{Timer: &daemons.Timer{Interval: time.Hour}}, nil, time.Hour, 5 * time.Second},
		{"a stopping daemon", daemons.Options{}, daemons.Task{Daemon: daemons.Daemon{CancellationTimeout: new(20 * time.Second)}},
			func(s *supervisorTest) { s.Stop(key, daemons.ErrDeleted); advance(5 * time.Second) }, time.Hour, 15 * time.Second},
		{"an abandoned daemon", daemons.Options{}, daemons.Task{Daemon: daemons.Daemon{CancellationTimeout: new(time.Second)}},
			func(s *supervisorTest) { s.Stop(key, daemons.ErrDeleted); advance(5 * time.Second) }, time.Hour, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			runTest(t, test.options, func(s *supervisorTest) {
				test.task.Run = s.recordCalls(func(ctx context.Context, _ int) error {
					<-ctx.Done()
					<-time.After(test.takes)
					return nil
				})
				s.mustEnsure(test.task)
				if test.before != nil {
					test.before(s)
				}
				s.takeEnds()
				before := time.Now()
				s.cancel()
				if err := <-s.done; err != nil {
					s.Error(err)
				}
				s.done <- nil
				s.equal("time of the shutdown", time.Since(before), test.want)
				s.mustEnsure(daemons.Task{Run: s.recordCalls(nil)})
				s.Touch(key.UID)
				s.Resume()
				advance(2 * time.Hour)
				s.equal("invocations", len(s.recordedCalls()), 1)
				s.equal("DAE-44 OnEnd is not called", s.takeEnds(), 0)
				s.equal("number of jobs", daemons.Jobs(s.Supervisor), 0)
			})
		})
	}
}

// The supervisor abandons a run of a forgotten object after the grace period and then only counts it.
func TestForget(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		s.mustEnsure(daemons.Task{Kind: s.kind, Run: s.recordCalls(ignoreContext(time.Hour))})
		s.Forget(key.UID)
		advance(4 * time.Second)
		s.equal("busy", s.Busy(key.UID), true)
		advance(time.Second)
		s.equal("busy after the grace period", s.Busy(key.UID), false)
		s.equal("number of abandoned runs", metricValue(t, metrics.BackgroundAbandoned.WithLabelValues(s.kind, key.ID)), 1.0)
		advance(time.Hour)
		s.equal("number of jobs", daemons.Jobs(s.Supervisor), 0)
		s.equal("OnEnd is not called", s.takeEnds(), 0)
	})
}

// Wait returns when its own context is canceled.
func TestWait(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		if err := s.Wait(s.Context(), "unknown"); err != nil {
			s.Errorf("Wait for an unknown object returned %v, want no error", err)
		}
		s.mustEnsure(daemons.Task{Run: s.recordCalls(waitForStop)})
		ctx, cancel := context.WithTimeoutCause(s.Context(), time.Second, errBoom)
		defer cancel()
		s.equal("Wait returns the cause of its context", errors.Is(s.Wait(ctx, key.UID), errBoom), true)
	})
}

func TestStart_Twice(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		if err := s.Start(s.Context()); err == nil {
			s.Error("second Start returned no error")
		}
	})
	if err := daemons.New(daemons.Options{GracePeriod: -1}).Start(t.Context()); err == nil {
		t.Error("negative grace period caused no error")
	}
}

// Tasks that are added before Start run after Start.
func TestEnsure_BeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := daemons.New(daemons.Options{})
		calls := 0
		if err := s.Ensure(key, daemons.Task{Run: func(context.Context, attempt) error { calls++; return nil }}); err != nil {
			t.Fatal(err)
		}
		advance(time.Minute)
		if calls != 0 {
			t.Error("the task ran before Start")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Start(ctx) }()
		advance(time.Minute)
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
