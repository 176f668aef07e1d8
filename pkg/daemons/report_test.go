package daemons_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// DAE-24: the supervisor repeats a warning with the object, the handler and the duration.
func TestReport_RunsThatIgnoreCancellation(t *testing.T) {
	for _, test := range []struct {
		name    string
		options daemons.Options
		backoff *time.Duration
		timeout *time.Duration
		want    []string // durations in the warnings; the last warning is logged at the end of the run
	}{
		{"DAE-24 default interval", daemons.Options{}, nil, nil, []string{"1m0s", "2m0s", "3m0s", "3m20s"}},
		{"DAE-24 ReportEvery", daemons.Options{ReportEvery: 90 * time.Second}, nil, nil, []string{"1m30s", "3m0s", "3m20s"}},
		{"DAE-21 first warning after the backoff", daemons.Options{}, new(10 * time.Second), nil, []string{"10s", "1m10s", "2m10s", "3m10s", "3m20s"}},
		{"DAE-23 last warning when the run is abandoned", daemons.Options{}, new(10 * time.Second), new(80 * time.Second), []string{"10s", "1m10s", "1m30s", "3m20s"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			runTest(t, test.options, func(s *supervisorTest) {
				s.mustEnsure(daemons.Task{
					Kind: s.kind, Object: types.NamespacedName{Namespace: "ns", Name: "obj"},
					Daemon: daemons.Daemon{CancellationBackoff: test.backoff, CancellationTimeout: test.timeout},
					Run:    s.recordCalls(ignoreContext(200 * time.Second)),
				})
				s.StopAll(key.UID, daemons.ErrDeleted)
				unstopped := metrics.BackgroundUnstopped.WithLabelValues(s.kind, key.ID)
				s.equal("unstopped runs at first", metricValue(t, unstopped), 0.0)
				advance(100 * time.Second)
				s.equal("unstopped runs", metricValue(t, unstopped), 1.0)
				advance(time.Hour)
				s.equal("unstopped runs at the end", metricValue(t, unstopped), 0.0)
				var since []string
				for _, line := range s.takeLog() {
					if _, after, ok := strings.Cut(line, `"since"="`); ok {
						since = append(since, strings.Split(after, `"`)[0])
						contains(t, line, `"namespace"="ns"`, `"name"="obj"`, `"uid"="uid-1"`, `"handler"="watch"`)
					}
				}
				s.equal("reports", since, test.want)
			})
		})
	}
}

// ERR-07 B-27
func TestReport_Attempts(t *testing.T) {
	timer := &daemons.Timer{Interval: time.Hour}
	for _, test := range []struct {
		name    string
		task    daemons.Task
		do      func(context.Context, int) error
		stop    bool
		outcome string
		want    []string
	}{
		{"success", daemons.Task{}, nil, false, "succeeded", []string{`"level"=0`, "Daemon succeeded", `"took"="0s"`, `"attempt"=0`}},
		{"success of a timer", daemons.Task{Timer: timer}, nil, false, "succeeded", []string{`"level"=1`, "Timer succeeded"}},
		{"an expected error", daemons.Task{}, returnError(progress.Temporary(errBoom, time.Hour)), false, "retried",
			[]string{`"level"=0`, "will be retried", `"error"="boom"`, `"retryAfter"="1h0m0s"`}},
		{"another error", daemons.Task{}, returnError(errBoom), false, "retried", []string{`"error"="boom"`, `"retryAfter"="1m0s"`}},
		{"a permanent error", daemons.Task{Timer: timer}, returnError(progress.Permanent(errBoom)), false, "failed", []string{`"level"=0`, "Timer failed permanently"}},
		{"an ignored error", daemons.Task{Policy: progress.Policy{Errors: progress.ErrorsIgnored}}, returnError(errBoom), false, "ignored", []string{`"level"=0`, "the error is ignored"}},
		{"a panic", daemons.Task{}, func(context.Context, int) error { panic("boom") }, false, "retried", []string{"panic: boom", "report_test.go"}},
		{"stopped", daemons.Task{}, waitForStop, true, "interrupted", []string{`"level"=0`, `"Daemon stopped"`, "filters"}},
	} {
		t.Run("ERR-07 "+test.name, func(t *testing.T) {
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				test.task.Kind, test.task.Label = s.kind, "label"
				test.task.Run = s.recordCalls(test.do)
				s.mustEnsure(test.task)
				if test.stop {
					s.Stop(key, daemons.ErrFilteredOut)
				}
				advance(time.Second)
				lines := s.takeLog()
				if len(lines) != 1 {
					s.Fatalf("log lines = %q, want one", lines)
				}
				contains(t, lines[0], test.want...)
				s.equal("number of attempts", metricValue(t, metrics.HandlerAttempts.WithLabelValues(test.task.Kind, "label", test.outcome)), 1.0)
			})
		})
	}
}

// The gauges count daemons and timers.
func TestGauges(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		daemonsGauge, timersGauge := metrics.Daemons.WithLabelValues(s.kind, "label"), metrics.Timers.WithLabelValues(s.kind, "label")
		expect := func(when string, daemons, timers float64) {
			s.Helper()
			s.equal("daemons "+when, metricValue(t, daemonsGauge), daemons)
			s.equal("timers "+when, metricValue(t, timersGauge), timers)
		}
		task := daemons.Task{Kind: s.kind, Label: "label", Run: s.recordCalls(func(ctx context.Context, n int) error {
			if n > 0 {
				return waitForStop(ctx, n)
			}
			return errBoom
		})}
		s.mustEnsure(task)
		task.Timer = &daemons.Timer{Idle: time.Second}
		if err := s.Ensure(daemons.Key{UID: key.UID, ID: "timer"}, task); err != nil {
			s.Fatal(err)
		}
		expect("waiting", 1, 1)
		advance(2 * time.Minute)
		expect("running", 1, 1)
		s.Pause()
		advance(time.Second)
		expect("paused", 0, 0)
		s.Resume()
		expect("resumed", 1, 1)
		advance(time.Minute)
		s.StopAll(key.UID, daemons.ErrDeleted)
		advance(time.Second)
		expect("stopped", 0, 0)
	})
}

// TIM-03: a histogram records the delay of timers.
func TestTimer_DriftIsMeasured(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		ensureMany(s, 2, daemons.Task{Kind: s.kind, Timer: &daemons.Timer{Interval: time.Hour, MaxParallel: 1}, Run: s.recordCalls(ignoreContext(20 * time.Second))})
		advance(time.Minute)
		count, sum := histogram(t, metrics.TimerDrift.WithLabelValues(s.kind, key.ID))
		s.equal("invocations", count, uint64(2))
		s.equal("sum of the drift in seconds", sum, 20.0)
	})
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("got %s\nwant a text with %s", text, part)
		}
	}
}
