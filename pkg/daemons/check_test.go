package daemons_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestTask_Check(t *testing.T) {
	var (
		negative = new(-time.Second)
		zero     = new(time.Duration(0))
		second   = time.Second
	)
	timer := func(timer daemons.Timer) daemons.Task { return daemons.Task{Timer: &timer} }
	policy := func(policy progress.Policy) daemons.Task { return daemons.Task{Policy: policy} }
	backoff := func(progress.Attempt, error) time.Duration { return 0 }
	for _, test := range []struct {
		name string
		task daemons.Task
		want []string // parts of the error; nil for a valid task
	}{
		{"a daemon", daemons.Task{}, nil},
		{"a daemon with all options", daemons.Task{InitialDelay: second, Daemon: daemons.Daemon{Restart: daemons.RestartAlways, CancellationBackoff: zero, CancellationTimeout: zero}}, nil},
		{"durations without a unit", daemons.Task{InitialDelay: 5, Policy: progress.Policy{Backoff: new(time.Duration(30))}},
			[]string{"InitialDelay is 5ns; durations need a unit: 5*time.Second", "Policy.Backoff is 30ns"}},
		{"an interval without a unit", timer(daemons.Timer{Interval: 5}), []string{"Interval is 5ns; durations need a unit: 5*time.Second"}},
		{"a negative initial delay", daemons.Task{InitialDelay: -1}, []string{"InitialDelay must not be negative, got -1ns"}},
		{"an invalid restart policy", daemons.Task{Daemon: daemons.Daemon{Restart: 7}}, []string{"use RestartNever, RestartOnFailure or RestartAlways"}},
		{"negative cancellation", daemons.Task{Daemon: daemons.Daemon{CancellationBackoff: negative, CancellationTimeout: negative}},
			[]string{"CancellationBackoff must not be negative", "CancellationTimeout must not be negative"}},
		{"negative limits", policy(progress.Policy{Retries: new(-1), Timeout: negative, Backoff: negative, AttemptTimeout: -1}),
			[]string{"Retries must not be negative, got -1", "Policy.Timeout", "Policy.Backoff", "Policy.AttemptTimeout"}},
		{"two backoffs", policy(progress.Policy{Backoff: zero, BackoffFunc: backoff}), []string{"are mutually exclusive: remove one"}},
		{"an invalid mode", policy(progress.Policy{Errors: -1}), []string{"Policy.Errors has the invalid value -1"}},
		{"an interval", timer(daemons.Timer{Interval: second, Sharp: true, Anchor: epoch, Idle: second, Jitter: 1, MaxParallel: 1, Last: epoch}), nil},
		{"a schedule", timer(daemons.Timer{Schedule: minutely, Idle: second, Jitter: 0.5}), nil},
		{"idle", timer(daemons.Timer{Idle: second}), nil},
		{"no timing", timer(daemons.Timer{}), []string{"the timer needs an Interval, an Idle or a Schedule"}},
		{"a negative interval", timer(daemons.Timer{Interval: -second}), []string{"Interval must not be negative, got -1s"}},
		{"a negative idle time", timer(daemons.Timer{Idle: -second}), []string{"Idle must not be negative"}},
		{"an interval and a schedule", timer(daemons.Timer{Interval: second, Schedule: minutely}), []string{"are mutually exclusive: remove one"}},
		{"sharp without an interval", timer(daemons.Timer{Idle: second, Sharp: true}), []string{"Sharp needs an Interval"}},
		{"sharp with a schedule", timer(daemons.Timer{Schedule: minutely, Sharp: true}), []string{"Sharp needs an Interval"}},
		{"an anchor without Sharp", timer(daemons.Timer{Interval: second, Anchor: epoch}), []string{"set Sharp"}},
		{"negative jitter", timer(daemons.Timer{Interval: second, Jitter: -0.1}), []string{"from 0 to 1, got -0.1"}},
		{"too much jitter", timer(daemons.Timer{Interval: second, Jitter: 1.1}), []string{"from 0 to 1, got 1.1"}},
		{"jitter NaN", timer(daemons.Timer{Interval: second, Jitter: math.NaN()}), []string{"from 0 to 1, got NaN"}},
		{"jitter without an interval", timer(daemons.Timer{Idle: second, Jitter: 0.1}), []string{"remove Jitter"}},
		{"negative limit", timer(daemons.Timer{Interval: second, MaxParallel: -1}), []string{"MaxParallel must not be negative, got -1"}},
		{"TIM-18 options of daemons", daemons.Task{Timer: &daemons.Timer{Interval: second}, Daemon: daemons.Daemon{Restart: daemons.RestartAlways, CancellationTimeout: zero}},
			[]string{"Daemon is set for a timer"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.task.Run = func(context.Context, attempt) error { return nil }
			err := test.task.Check()
			if (err != nil) != (len(test.want) > 0) {
				t.Fatalf("error = %v, want %q", err, test.want)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error = %v, want an error with %q", err, part)
				}
			}
			if err != nil && len(strings.Split(err.Error(), "\n")) != len(test.want) {
				t.Errorf("error = %v, want %d lines", err, len(test.want))
			}
		})
	}
}

// Ensure returns the errors of Check with the name of the task.
func TestEnsure_InvalidTask(t *testing.T) {
	s := daemons.New(daemons.Options{})
	err := s.Ensure(key, daemons.Task{})
	if err == nil || !strings.Contains(err.Error(), "Run is nil") || !strings.Contains(err.Error(), key.ID) {
		t.Errorf("error = %v, want an error about Run and the handler", err)
	}
	if daemons.Jobs(s) != 0 {
		t.Error("the supervisor accepted the invalid task")
	}
}
