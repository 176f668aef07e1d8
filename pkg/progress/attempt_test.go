package progress_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// countCalls returns a function that counts its calls.
func countCalls(calls *int, err error) func(context.Context) error {
	return func(context.Context) error {
		*calls++
		return err
	}
}

func TestPolicyAttempt_ChecksLimitsFirst(t *testing.T) {
	for _, test := range []struct {
		name   string
		policy progress.Policy
		record progress.Record
		calls  int
		text   string // part of the error
	}{
		{"ERR-02 before the timeout", progress.Policy{Timeout: new(time.Minute)}, progress.Record{Started: t0.Add(-59 * time.Second), Retries: 1}, 1, ""},
		{"ERR-02 exactly at the timeout", progress.Policy{Timeout: new(time.Minute)}, progress.Record{Started: t0.Add(-time.Minute), Retries: 1}, 0, "1m0s"},
		{"ERR-02 after the timeout", progress.Policy{Timeout: new(time.Minute)}, progress.Record{Started: t0.Add(-time.Hour), Retries: 1}, 0, "1m0s"},
		{"ERR-02 after the timeout, without attempts: another clock may have written the record", progress.Policy{Timeout: new(time.Minute)}, progress.Record{Started: t0.Add(-time.Hour)}, 1, ""},
		{"ERR-02 a timeout of 0", progress.Policy{Timeout: new(time.Duration(0))}, progress.Record{Started: t0}, 0, "0s"},
		{"ERR-02 never started", progress.Policy{Timeout: new(time.Minute)}, progress.Record{}, 1, ""},
		{"ERR-03 attempts remain", progress.Policy{Retries: new(3)}, progress.Record{Retries: 2}, 1, ""},
		{"ERR-03 no attempts remain", progress.Policy{Retries: new(3)}, progress.Record{Retries: 3}, 0, "3 attempts"},
		{"ERR-03 a reduced limit", progress.Policy{Retries: new(3)}, progress.Record{Retries: 5}, 0, "5 attempts"},
		{"ERR-03 zero retries", progress.Policy{Retries: new(0)}, progress.Record{}, 0, "0 attempts"},
		{"ERR-03 one attempt", progress.Policy{Retries: new(1)}, progress.Record{}, 1, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := 0
			got := test.policy.Attempt(t.Context(), test.record, t0, countCalls(&calls, nil))
			equal(t, "calls", calls, test.calls)
			want := progress.Outcome{Final: true, Success: true, Attempted: true}
			if test.calls == 0 {
				want = progress.Outcome{Final: true}
				var limit *progress.LimitError
				if !errors.As(got.Err, &limit) || !strings.Contains(limit.Error(), test.text) {
					t.Errorf("ERR-05: error = %v, want a limit with %q", got.Err, test.text)
				}
				got.Err = nil
			}
			equal(t, "outcome", got, want)
		})
	}
}

// The error includes the stored message, because another process may have made the attempts.
func TestPolicyAttempt_LimitErrorWrapsStoredMessage(t *testing.T) {
	policy := progress.Policy{Retries: new(3)}
	got := policy.Attempt(t.Context(), progress.Record{Retries: 3, Message: "not ready"}, t0, func(context.Context) error {
		t.Error("ERR-03: the handler was called after the limit")
		return nil
	})
	if got.Err == nil || !strings.Contains(got.Err.Error(), "3 attempts") || !strings.Contains(got.Err.Error(), "not ready") {
		t.Errorf("ERR-05: error = %v, want an error with the limit and the last message", got.Err)
	}
	if !progress.Expected(got.Err) {
		t.Error("ERR-07: got an unexpected error, want an expected error for a limit without a call")
	}
}

func TestPolicyAttempt_RecoversPanics(t *testing.T) {
	for _, test := range []struct {
		name string
		fn   func(context.Context) error
	}{
		{"B-23 a value", func(context.Context) error { panic("boom") }},
		{"B-23 an error", func(context.Context) error { panic(errors.New("boom")) }},
		{"B-23 a permanent error", func(context.Context) error { panic(progress.Permanent(errors.New("boom"))) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := progress.Policy{}.Attempt(t.Context(), progress.Record{}, t0, test.fn)
			var panicked *progress.PanicError
			if !errors.As(got.Err, &panicked) {
				t.Fatalf("error = %v, want a PanicError", got.Err)
			}
			if !strings.Contains(panicked.Error(), "boom") || !strings.Contains(string(panicked.Stack), "attempt_test.go") {
				t.Errorf("error = %q, want the cause, and the place in the stack:\n%s", panicked, panicked.Stack)
			}
			got.Err = nil
			equal(t, "B-23 outcome of an unexpected error", got, progress.Outcome{Delay: time.Minute, Attempted: true})
		})
	}
}

// A failing test inside a handler ends its goroutine with Goexit, which is not a panic.
func TestPolicyAttempt_PropagatesGoexit(t *testing.T) {
	returned := true
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned = false
		progress.Policy{}.Attempt(t.Context(), progress.Record{}, t0, func(context.Context) error {
			runtime.Goexit()
			return nil
		})
		returned = true
	}()
	<-done
	if returned {
		t.Error("ERR-11: Attempt returned after Goexit")
	}
}

func TestPolicyAttempt_AttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := progress.Policy{AttemptTimeout: 10 * time.Second, Backoff: new(time.Second)}
		began := time.Now()
		got := policy.Attempt(t.Context(), progress.Record{Started: began}, began, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		equal(t, "B-22 duration of the attempt", time.Since(began), 10*time.Second)
		if !errors.Is(got.Err, context.DeadlineExceeded) || got.Interrupted || got.Final || got.Delay != time.Second || !got.Attempted {
			t.Errorf("B-22: outcome = %+v, want another attempt after the backoff", got)
		}
	})
}

func TestPolicyAttempt_NoDeadlineByDefault(t *testing.T) {
	progress.Policy{Timeout: new(time.Minute)}.Attempt(t.Context(), progress.Record{}, t0, func(ctx context.Context) error {
		if deadline, ok := ctx.Deadline(); ok {
			t.Errorf("ERR-06: deadline of the attempt = %s, want none", deadline)
		}
		return nil
	})
}

func TestPolicyAttempt_ReleasesTimer(t *testing.T) {
	var inside context.Context
	progress.Policy{AttemptTimeout: time.Hour}.Attempt(t.Context(), progress.Record{}, t0, func(ctx context.Context) error {
		inside = ctx
		return nil
	})
	if inside.Err() == nil {
		t.Error("B-22: the context of the attempt was not canceled")
	}
}

// The limits of the next attempt include the duration of the current attempt.
func TestPolicyAttempt_CountsItsDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := progress.Policy{Timeout: new(time.Minute), Backoff: new(10 * time.Second)}
		attempt := func(took time.Duration) progress.Outcome {
			now := time.Now()
			return policy.Attempt(t.Context(), progress.Record{Started: now}, now, func(context.Context) error {
				advance(took)
				return errBoom
			})
		}
		if got := attempt(50*time.Second - 1); got.Final || got.Delay != 10*time.Second {
			t.Errorf("ERR-04: outcome = %+v, want another attempt", got)
		}
		if got := attempt(50 * time.Second); !got.Final || got.Success {
			t.Errorf("ERR-04: outcome = %+v, want a final outcome: the next attempt would exceed the timeout", got)
		}
	})
}

func TestPolicyAttempt_Interrupted(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want progress.Outcome
	}{
		{"ERR a cancellation error", context.Canceled, progress.Outcome{Interrupted: true}},
		{"ERR an unexpected error after the cancellation", errBoom, progress.Outcome{Interrupted: true}},
		{"ERR success after the cancellation", nil, progress.Outcome{Final: true, Success: true, Attempted: true}},
		{"ERR a permanent error after the cancellation", progress.Permanent(errBoom), progress.Outcome{Final: true, Attempted: true}},
		{"ERR a temporary error after the cancellation", progress.Temporary(errBoom, time.Second), progress.Outcome{Delay: time.Second, Attempted: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, mode := range []progress.ErrorMode{progress.ErrorsTemporary, progress.ErrorsPermanent, progress.ErrorsIgnored} {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				got := progress.Policy{Errors: mode}.Attempt(ctx, progress.Record{}, t0, func(context.Context) error {
					cancel()
					return test.err
				})
				got.Err = nil
				equal(t, "outcome", got, test.want)
			}
		})
	}
}

func TestAttempt_Runtime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempt := progress.Attempt{Started: time.Now()}
		advance(time.Minute)
		equal(t, "KW-06 runtime", attempt.Runtime(), time.Minute)
	})
}
