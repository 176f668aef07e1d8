package progress_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Each test case combines an error and some modes.
func TestPolicyOutcome_ByErrorAndMode(t *testing.T) {
	const (
		temporary = progress.ErrorsTemporary
		permanent = progress.ErrorsPermanent
		ignored   = progress.ErrorsIgnored
	)
	all := []progress.ErrorMode{temporary, permanent, ignored}
	backoff := progress.Policy{Backoff: new(5 * time.Second)}
	for _, test := range []struct {
		name   string
		policy progress.Policy
		modes  []progress.ErrorMode
		err    error
		want   progress.Outcome // Err and Attempted are set below
	}{
		{"ERR nil: final success", backoff, all, nil, progress.Outcome{Final: true, Success: true}},
		{"ERR temporary: retry after its delay", backoff, all, progress.Temporary(errBoom, time.Hour), progress.Outcome{Delay: time.Hour}},
		{"ERR temporary without a delay: immediate retry", backoff, all, progress.Temporary(errBoom, 0), progress.Outcome{}},
		{"ERR temporary, wrapped", backoff, all, fmt.Errorf("a: %w", progress.Temporary(errBoom, time.Hour)), progress.Outcome{Delay: time.Hour}},
		{"ERR permanent: final failure", backoff, all, progress.Permanent(errBoom), progress.Outcome{Final: true}},
		{"ERR permanent, wrapped", backoff, all, fmt.Errorf("a: %w", progress.Permanent(errBoom)), progress.Outcome{Final: true}},
		{"ERR terminal: final failure", backoff, all, reconcile.TerminalError(errBoom), progress.Outcome{Final: true}},
		{"ERR permanent error that wraps a temporary error", backoff, all, progress.Permanent(progress.Temporary(errBoom, 1)), progress.Outcome{Final: true}},
		{"ERR temporary error that wraps a permanent error", backoff, all, progress.Temporary(progress.Permanent(errBoom), time.Hour), progress.Outcome{Delay: time.Hour}},
		{"ERR temporary error that wraps a terminal error", backoff, all, progress.Temporary(reconcile.TerminalError(errBoom), time.Hour), progress.Outcome{Delay: time.Hour}},
		{"ERR-05 a limit: final failure", backoff, all, &progress.LimitError{Limit: "timed out"}, progress.Outcome{Final: true}},
		{"ERR joined with a temporary error", backoff, all, errors.Join(errBoom, progress.Temporary(errBoom, time.Hour)), progress.Outcome{Delay: time.Hour}},
		{"ERR joined with a permanent error", backoff, all, errors.Join(errBoom, progress.Permanent(errBoom)), progress.Outcome{Final: true}},
		{"ERR joined with temporary and permanent: the first takes precedence", backoff, all, errors.Join(progress.Temporary(errBoom, time.Hour), progress.Permanent(errBoom)), progress.Outcome{Delay: time.Hour}},
		{"ERR joined with permanent and temporary: the first takes precedence", backoff, all, errors.Join(progress.Permanent(errBoom), progress.Temporary(errBoom, time.Hour)), progress.Outcome{Final: true}},
		{"ERR temporary error that wraps joined errors", backoff, all, progress.Temporary(errors.Join(errBoom, progress.Permanent(errBoom)), time.Hour), progress.Outcome{Delay: time.Hour}},
		{"ERR other, temporary mode: retry after the backoff", backoff, []progress.ErrorMode{temporary}, errBoom, progress.Outcome{Delay: 5 * time.Second}},
		{"ERR other, permanent mode: final failure", backoff, []progress.ErrorMode{permanent}, errBoom, progress.Outcome{Final: true}},
		{"ERR other, ignored mode: final success", backoff, []progress.ErrorMode{ignored}, errBoom, progress.Outcome{Final: true, Success: true}},
		{"ERR-01 other, default policy: retry after one minute", progress.Policy{}, []progress.ErrorMode{temporary}, errBoom, progress.Outcome{Delay: time.Minute}},
		{"ERR-12 a backoff of 0: immediate retry", progress.Policy{Backoff: new(time.Duration(0))}, []progress.ErrorMode{temporary}, errBoom, progress.Outcome{}},
		{"B-23 a panic in temporary mode", backoff, []progress.ErrorMode{temporary}, &progress.PanicError{Value: 1}, progress.Outcome{Delay: 5 * time.Second}},
		{"B-23 a panic in permanent mode", backoff, []progress.ErrorMode{permanent}, &progress.PanicError{Value: 1}, progress.Outcome{Final: true}},
	} {
		for _, mode := range test.modes {
			t.Run(fmt.Sprintf("%s/mode %d", test.name, mode), func(t *testing.T) {
				policy := test.policy
				policy.Errors = mode
				got := policy.Outcome(progress.Record{Started: t0}, t0, test.err)
				expectSameError(t, got.Err, test.err)
				got.Err, test.want.Attempted = nil, true
				equal(t, "outcome", got, test.want)
			})
		}
	}
}

func TestPolicyOutcome_ChecksLimitsOfNextAttempt(t *testing.T) {
	temporary := progress.Temporary(errBoom, 10*time.Second)
	for _, test := range []struct {
		name   string
		policy progress.Policy
		record progress.Record
		after  time.Duration // time since the start
		err    error
		final  bool
	}{
		{"ERR-04 the retry would exceed the retries", progress.Policy{Retries: new(3)}, progress.Record{Retries: 2}, 0, temporary, true},
		{"ERR-04 one attempt remains", progress.Policy{Retries: new(3)}, progress.Record{Retries: 1}, 0, temporary, false},
		{"ERR-04 the retry would be after the timeout", progress.Policy{Timeout: new(15 * time.Second)}, progress.Record{}, 6 * time.Second, temporary, true},
		{"ERR-04 the retry would be exactly at the timeout", progress.Policy{Timeout: new(15 * time.Second)}, progress.Record{}, 5 * time.Second, temporary, true},
		{"ERR-04 the retry is before the timeout", progress.Policy{Timeout: new(15 * time.Second)}, progress.Record{}, 4 * time.Second, temporary, false},
		{"ERR-04 ERR-08 the backoff is included", progress.Policy{Timeout: new(time.Minute)}, progress.Record{}, 0, errBoom, true},
		{"ERR-04 no limits", progress.Policy{}, progress.Record{Retries: 1 << 20}, 1000 * time.Hour, temporary, false},
		{"ERR-08 temporary errors in ignored mode", progress.Policy{Errors: progress.ErrorsIgnored, Retries: new(1)}, progress.Record{}, 0, temporary, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.record.Started = t0
			got := test.policy.Outcome(test.record, t0.Add(test.after), test.err)
			if got.Final != test.final || got.Success || !got.Attempted {
				t.Errorf("outcome = %+v, want final = %t", got, test.final)
			}
			var limit *progress.LimitError
			if isLimit := errors.As(got.Err, &limit); isLimit != test.final {
				t.Errorf("ERR-05: error = %#v, want a LimitError: %t", got.Err, test.final)
			}
			if !errors.Is(got.Err, errBoom) {
				t.Errorf("error = %v, want an error that wraps the last error", got.Err)
			}
		})
	}
}

func TestPolicyOutcome_NoLimitsInOtherModes(t *testing.T) {
	record := progress.Record{Started: t0, Retries: 5}
	policy := progress.Policy{Retries: new(1), Timeout: new(time.Second), Errors: progress.ErrorsIgnored}
	got := policy.Outcome(record, t0.Add(time.Hour), errBoom)
	expectSameError(t, got.Err, errBoom)
	if !got.Success {
		t.Errorf("ERR-08: outcome = %+v, want the success of an ignored error", got)
	}
	policy.Errors = progress.ErrorsPermanent
	got = policy.Outcome(record, t0.Add(time.Hour), errBoom)
	expectSameError(t, got.Err, errBoom)
	if got.Success || !got.Final {
		t.Errorf("ERR-08: outcome = %+v, want the failure with its own error", got)
	}
}

func TestPolicyOutcome_BackoffFunc(t *testing.T) {
	record := progress.Record{Started: t0, Retries: 3, Message: "before"}
	var seen progress.Attempt
	var seenErr error
	policy := progress.Policy{
		Backoff: new(time.Hour),
		BackoffFunc: func(a progress.Attempt, err error) time.Duration {
			seen, seenErr = a, err
			return time.Duration(a.Number) * time.Second
		},
	}
	got := policy.Outcome(record, t0, errBoom)
	equal(t, "delay", got.Delay, 3*time.Second)
	equal(t, "attempt passed to BackoffFunc", seen, progress.Attempt{Number: 3, Started: t0, Last: "before"})
	expectSameError(t, seenErr, errBoom)

	policy.BackoffFunc = func(progress.Attempt, error) time.Duration { return -time.Second }
	equal(t, "ERR-12 delay for a negative backoff", policy.Outcome(record, t0, errBoom).Delay, time.Duration(0))

	policy.BackoffFunc = func(progress.Attempt, error) time.Duration { panic("unexpected call for a temporary error") }
	equal(t, "ERR delay of a temporary error", policy.Outcome(record, t0, progress.Temporary(errBoom, time.Minute)).Delay, time.Minute)
}

func TestPolicy_ZeroValueRetriesWithoutLimit(t *testing.T) {
	record := progress.Record{Started: t0.Add(-1000 * time.Hour), Retries: 1 << 30}
	if got := (progress.Policy{}).Outcome(record, t0, errBoom); got.Final || got.Delay != progress.DefaultBackoff {
		t.Errorf("ERR-01: outcome = %+v, want another attempt after %s", got, progress.DefaultBackoff)
	}
	equal(t, "ERR-01 kopf's default backoff", progress.DefaultBackoff, 60*time.Second)
}

// A handler that waits for its sub-handlers uses up its timeout, but no retries.
func TestPolicyWait(t *testing.T) {
	policy := progress.Policy{Timeout: new(time.Minute), Retries: new(1)}
	for _, test := range []struct {
		name   string
		policy progress.Policy
		record progress.Record
		after  time.Duration // time since the start
		delay  time.Duration
		fails  bool
	}{
		{"the next call is before the timeout", policy, progress.Record{Started: t0}, 10 * time.Second, 49 * time.Second, false},
		{"the next call is at the timeout", policy, progress.Record{Started: t0}, 10 * time.Second, 50 * time.Second, true},
		{"the timeout is over", policy, progress.Record{Started: t0, Retries: 1}, time.Hour, 0, true},
		{"no timeout", progress.Policy{Retries: new(1)}, progress.Record{Started: t0}, time.Hour, time.Hour, false},
		{"the start is unknown", policy, progress.Record{}, time.Hour, time.Hour, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.policy.Wait(test.record, t0.Add(test.after), test.delay)
			if !test.fails {
				equal(t, "outcome", got, progress.Outcome{Waiting: true, Delay: test.delay})
				return
			}
			var limit *progress.LimitError
			if !errors.As(got.Err, &limit) || !got.Final || got.Success || !got.Attempted {
				t.Errorf("outcome = %+v, want a failure by the limit", got)
			}
		})
	}
}

// The timeout forbids another call of a handler that waits for its sub-handlers, although waiting is not an attempt.
func TestPolicyAttempt_TimeoutWhileWaiting(t *testing.T) {
	policy := progress.Policy{Timeout: new(time.Minute)}
	record := progress.Record{Started: t0, Attempted: t0, Delayed: t0.Add(time.Second), Subrefs: []string{"p/a"}}
	for _, after := range []time.Duration{time.Minute - 1, time.Minute} {
		called := false
		got := policy.Attempt(t.Context(), record, t0.Add(after), func(context.Context) error { called = true; return nil })
		if want := after < time.Minute; called != want || got.Success != want || !got.Final {
			t.Errorf("after %s: called = %t, outcome = %+v, want a call: %t", after, called, got, want)
		}
	}
}
