package daemons_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// DAE-01 DAE-02
func TestEnsure_IsIdempotent(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		task := daemons.Task{Run: s.recordCalls(waitForStop)}
		for range 3 {
			s.mustEnsure(task)
		}
		s.equal("DAE-01 DAE-02 runs of one key", len(s.recordedCalls()), 1)
		for _, other := range []daemons.Key{{UID: key.UID, ID: "other"}, {UID: "uid-2", ID: key.ID}} {
			if err := s.Ensure(other, task); err != nil {
				s.Fatal(err)
			}
		}
		advance(time.Hour)
		s.equal("runs of three keys", len(s.recordedCalls()), 3)
	})
}

// DAE-10 to DAE-16
func TestDaemon_Outcomes(t *testing.T) {
	boom := func(context.Context, int) error { return errBoom }
	returns := func(errs ...error) func(context.Context, int) error {
		return func(_ context.Context, n int) error { return errs[min(n, len(errs)-1)] }
	}
	for _, test := range []struct {
		name  string
		task  daemons.Task
		do    func(context.Context, int) error
		want  []call
		ended bool
	}{
		{"DAE-14 a daemon that returns is not restarted", daemons.Task{}, nil, []call{{0, 0}}, true},
		{"DAE-10 an initial delay", daemons.Task{InitialDelay: time.Minute}, nil, []call{{time.Minute, 0}}, true},
		{"TIM-10 a one-shot is a daemon that returns", daemons.Task{InitialDelay: time.Hour}, nil, []call{{time.Hour, 0}}, true},
		{"DAE-12 a temporary error is retried after its delay", daemons.Task{},
			returns(progress.Temporary(errBoom, time.Second), progress.Temporary(errBoom, 3*time.Second), nil),
			[]call{{0, 0}, {time.Second, 1}, {4 * time.Second, 2}}, true},
		{"DAE-12 another error is retried after the backoff", daemons.Task{}, returns(errBoom, nil), []call{{0, 0}, {time.Minute, 1}}, true},
		{"DAE-12 retries", daemons.Task{Policy: progress.Policy{Retries: new(2), Backoff: new(time.Second)}}, boom,
			[]call{{0, 0}, {time.Second, 1}}, true},
		{"DAE-12 zero retries", daemons.Task{Policy: progress.Policy{Retries: new(0)}}, boom, nil, true},
		{"DAE-12 the timeout starts after the initial delay",
			daemons.Task{InitialDelay: time.Hour, Policy: progress.Policy{Timeout: new(25 * time.Second), Backoff: new(10 * time.Second)}}, boom,
			[]call{{time.Hour, 0}, {time.Hour + 10*time.Second, 1}, {time.Hour + 20*time.Second, 2}}, true},
		{"DAE-12 errors are permanent", daemons.Task{Policy: progress.Policy{Errors: progress.ErrorsPermanent}}, boom, []call{{0, 0}}, true},
		{"DAE-12 errors are ignored", daemons.Task{Policy: progress.Policy{Errors: progress.ErrorsIgnored}}, boom, []call{{0, 0}}, true},
		{"DAE-14 a permanent error", daemons.Task{}, returns(progress.Permanent(errBoom)), []call{{0, 0}}, true},
		{"DAE-16 a delay of zero retries immediately", daemons.Task{}, returns(progress.Temporary(errBoom, 0), progress.Temporary(errBoom, 0), nil),
			[]call{{0, 0}, {0, 1}, {0, 2}}, true},
		{"a panic is an error", daemons.Task{Policy: progress.Policy{Backoff: new(time.Second)}},
			func(_ context.Context, n int) error {
				if n == 0 {
					panic("boom")
				}
				return nil
			}, []call{{0, 0}, {time.Second, 1}}, true},
		{"a panic of the backoff function is an error", daemons.Task{Policy: progress.Policy{
			BackoffFunc: func(progress.Attempt, error) time.Duration { panic("boom") }}},
			returns(errBoom, nil), []call{{0, 0}, {progress.DefaultBackoff, 1}}, true},
		{"Goexit is an error", daemons.Task{Policy: progress.Policy{Backoff: new(time.Second)}},
			func(_ context.Context, n int) error {
				if n == 0 {
					runtime.Goexit()
				}
				return nil
			}, []call{{0, 0}, {time.Second, 1}}, true},
		{"a daemon runs until it is stopped", daemons.Task{}, waitForStop, []call{{0, 0}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				test.task.Run = s.recordCalls(test.do)
				s.mustEnsure(test.task)
				advance(2 * time.Hour)
				s.equal("invocations", s.recordedCalls(), test.want)
				s.equal("DAE-03 ended", s.Ended(key), test.ended)
				s.equal("OnEnd is called", s.takeEnds() == 1, test.ended)
				s.mustEnsure(test.task)
				advance(2 * time.Hour)
				s.equal("DAE-14 invocations after another Ensure", len(s.recordedCalls()), len(test.want))
			})
		})
	}
}

// DAE-14: an ended daemon does not restart after stops and pauses until Forget is called for its object.
func TestDaemon_DoesNotRestartAfterItsEnd(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		task := daemons.Task{Run: s.recordCalls(nil)}
		s.mustEnsure(task)
		s.Stop(key, daemons.ErrFilteredOut)
		s.Pause()
		s.Resume()
		s.Touch(key.UID)
		s.mustEnsure(task)
		advance(time.Hour)
		s.equal("DAE-14 invocations", len(s.recordedCalls()), 1)
		s.Forget(key.UID)
		s.equal("ended after Forget", s.Ended(key), false)
		s.mustEnsure(task)
		s.equal("invocations after Forget", len(s.recordedCalls()), 2)
	})
}

// DAE-11
func TestEnsure_StartsWithNewRecord(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		task := daemons.Task{Run: s.recordCalls(func(_ context.Context, n int) error {
			return progress.Temporary(errBoom, time.Second)
		})}
		s.mustEnsure(task)
		advance(1500 * time.Millisecond)
		s.Stop(key, daemons.ErrFilteredOut)
		s.mustEnsure(task)
		s.equal("DAE-11 attempts", s.recordedCalls(), []call{{0, 0}, {time.Second, 1}, {1500 * time.Millisecond, 0}})
	})
}

func TestDaemon_ReceivesAttempt(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		var attempts []progress.Attempt
		s.mustEnsure(daemons.Task{InitialDelay: time.Second, Run: func(_ context.Context, attempt progress.Attempt) error {
			attempts = append(attempts, attempt)
			if attempt.Number == 0 {
				return progress.Temporary(errBoom, time.Second)
			}
			return nil
		}})
		advance(time.Minute)
		if len(attempts) != 2 {
			s.Fatalf("DAE-12: %d attempts, want 2", len(attempts))
		}
		s.equal("the last error", attempts[1].Last, "boom")
		s.equal("started", attempts[1].Started.Sub(s.start), time.Second)
	})
}

// B-40
func TestDaemon_RestartPolicies(t *testing.T) {
	fails := func(context.Context, int) error { return progress.Permanent(errBoom) }
	for _, test := range []struct {
		name   string
		policy daemons.RestartPolicy
		do     func(context.Context, int) error
		want   []time.Duration // times of runs in the first ten seconds
	}{
		{"never, success", daemons.RestartNever, nil, seconds(0)},
		{"never, failure", daemons.RestartNever, fails, seconds(0)},
		{"on error, success", daemons.RestartOnFailure, nil, seconds(0)},
		{"on error, failure", daemons.RestartOnFailure, fails, seconds(0, 1, 3, 7)},
		{"always, success", daemons.RestartAlways, nil, seconds(0, 1, 3, 7)},
		{"always, failure", daemons.RestartAlways, fails, seconds(0, 1, 3, 7)},
	} {
		t.Run("B-40 "+test.name, func(t *testing.T) {
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				s.mustEnsure(daemons.Task{Daemon: daemons.Daemon{Restart: test.policy}, Run: s.recordCalls(test.do)})
				advance(10 * time.Second)
				s.equal("B-40 runs", s.callTimes(), test.want)
				s.equal("B-40 ended", s.Ended(key), len(test.want) == 1)
			})
		})
	}
}

// B-40: the delay increases up to the backoff. A long run resets it.
func TestDaemon_RestartDelayGrows(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		s.mustEnsure(daemons.Task{
			Daemon: daemons.Daemon{Restart: daemons.RestartAlways}, Policy: progress.Policy{Backoff: new(3 * time.Second)},
			Run: s.recordCalls(func(_ context.Context, n int) error {
				if n == 4 {
					<-time.After(time.Minute)
				}
				return nil
			}),
		})
		advance(75 * time.Second)
		s.equal("B-40 runs", s.callTimes(), seconds(0, 1, 3, 6, 9, 70, 72, 75))
	})
}

// The timeout of an attempt does not stop the daemon.
func TestDaemon_AttemptTimeoutIsRetried(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		s.mustEnsure(daemons.Task{
			Policy: progress.Policy{AttemptTimeout: time.Second, Backoff: new(time.Second)},
			Run: s.recordCalls(func(ctx context.Context, _ int) error {
				<-ctx.Done()
				if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
					return nil
				}
				return ctx.Err()
			}),
		})
		advance(3 * time.Second)
		s.equal("runs", s.recordedCalls(), []call{{0, 0}, {2 * time.Second, 1}})
		s.equal("ended", s.Ended(key), false)
	})
}
