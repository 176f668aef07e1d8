package invoke_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var errAccept = errors.New("the changes have no JSON form")

// The steps of an attempt are made in order. Accept receives the error of the handler.
func TestHandlerAttempt_Steps(t *testing.T) {
	for _, test := range []struct {
		name      string
		handler   error
		accept    error
		noPrepare bool
		noAccept  bool
		want      error // nil: success
		steps     []string
	}{
		{name: "RES-04 success", steps: []string{"prepare fn", "do", "accept <nil>", "adjust"}},
		{name: "ERR-10 the handler fails", handler: errBoom, want: errBoom, steps: []string{"prepare fn", "do", "accept boom", "adjust"}},
		{
			name: "ERR-10 the changes are not accepted", accept: errAccept, want: errAccept,
			steps: []string{"prepare fn", "do", "accept <nil>", "adjust"},
		},
		{
			name: "ERR-10 the error of the handler comes first", handler: errBoom, accept: errAccept, want: errBoom,
			steps: []string{"prepare fn", "do", "accept boom", "adjust"},
		},
		{name: "RES-04 no preparation", noPrepare: true, steps: []string{"do", "accept <nil>", "adjust"}},
		{name: "RES-04 changes are not taken", noAccept: true, steps: []string{"prepare fn", "do", "adjust"}},
		{name: "ERR-10 changes are not taken, and the handler fails", noAccept: true, handler: errBoom, want: errBoom, steps: []string{"prepare fn", "do", "adjust"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var steps []string
			var requests []*invoke.Request
			a := invoke.HandlerAttempt{
				Kind: "widget", ID: "fn", View: &invoke.View{Object: widget(1), Reason: "create"}, Record: progress.Record{Retries: 3},
				Handler: &invoke.Handler{Do: func(_ context.Context, req *invoke.Request) error {
					steps, requests = append(steps, "do"), append(requests, req)
					return test.handler
				}},
				AdjustOutcome: func(_ context.Context, o progress.Outcome) progress.Outcome {
					steps = append(steps, "adjust")
					return o
				},
			}
			if !test.noPrepare {
				a.Prepare = func(req *invoke.Request) { steps, requests = append(steps, "prepare "+req.ID), append(requests, req) }
			}
			if !test.noAccept {
				a.Accept = func(req *invoke.Request, failed error) error {
					text := "<nil>"
					if failed != nil {
						text = failed.Error()
					}
					steps, requests = append(steps, "accept "+text), append(requests, req)
					return test.accept
				}
			}
			outcome := a.Run(t.Context())
			equal(t, "steps", steps, test.steps)
			if !errors.Is(outcome.Err, test.want) || outcome.Success != (test.want == nil) {
				t.Errorf("the outcome is %+v, want the error %v", outcome, test.want)
			}
			for _, req := range requests {
				if req != requests[0] || req.Attempt.Number != 3 || req.Reason != "create" {
					t.Errorf("a step receives the request %+v, want one request for attempt 3", req)
				}
			}
		})
	}
}

// A handler that panics has no changes to take.
func TestHandlerAttempt_DoesNotAcceptAfterPanic(t *testing.T) {
	outcome := invoke.HandlerAttempt{
		View:    &invoke.View{Object: widget(1)},
		Handler: &invoke.Handler{Do: func(context.Context, *invoke.Request) error { panic("oh") }},
		Accept:  func(*invoke.Request, error) error { t.Error("B-23: Accept is called"); return nil },
	}.Run(t.Context())
	if _, ok := errors.AsType[*progress.PanicError](outcome.Err); !ok || outcome.Final {
		t.Errorf("B-23: the outcome is %+v, want a panic that is retried", outcome)
	}
}

// Errors of Accept follow the policy of the handler, like its own errors.
func TestHandlerAttempt_RetriesErrorOfAccept(t *testing.T) {
	for _, test := range []struct {
		name  string
		err   error
		final bool
		delay time.Duration
	}{
		{"ERR-01 an unexpected error", errAccept, false, time.Hour},
		{"ERR-01 a temporary error", progress.Temporary(errAccept, time.Second), false, time.Second},
		{"ERR-01 a permanent error", progress.Permanent(errAccept), true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			outcome := invoke.HandlerAttempt{
				View: &invoke.View{Object: widget(1)},
				Handler: &invoke.Handler{
					Policy: progress.Policy{Backoff: new(time.Hour)},
					Do:     func(context.Context, *invoke.Request) error { return nil },
				},
				Accept: func(*invoke.Request, error) error { return test.err },
			}.Run(t.Context())
			if outcome.Final != test.final || outcome.Delay != test.delay || outcome.Success || !outcome.Attempted {
				t.Errorf("the outcome is %+v, want Final = %t and Delay = %v", outcome, test.final, test.delay)
			}
		})
	}
}

func TestHandlerAttempt_Once(t *testing.T) {
	for _, test := range []struct {
		name    string
		once    bool
		retries *int
		record  progress.Record
		final   bool
		calls   int
	}{
		{name: "ERR-03 further attempts follow", calls: 1},
		{name: "ERR-03 further attempts follow, limited", retries: new(5), calls: 1},
		{name: "B-25 the only attempt", once: true, final: true, calls: 1},
		{name: "B-25 the only attempt, although the policy has more", once: true, retries: new(5), final: true, calls: 1},
		{name: "B-25 the only attempt, although the policy has none", once: true, retries: new(0), final: true, calls: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := 0
			handler := invoke.Handler{Policy: progress.Policy{Retries: test.retries}, Do: func(context.Context, *invoke.Request) error {
				calls++
				return errBoom
			}}
			outcome := invoke.HandlerAttempt{View: &invoke.View{Object: widget(1)}, Handler: &handler, Once: test.once}.Run(t.Context())
			if outcome.Final != test.final || outcome.Success || calls != test.calls {
				t.Errorf("Final = %t, Success = %t after %d calls, want %t, false and %d", outcome.Final, outcome.Success, calls, test.final, test.calls)
			}
			if handler.Policy.Retries != test.retries {
				t.Error("Run changes the policy of the handler")
			}
		})
	}
}

// The sub-handlers of a handler decide on its outcome.
func TestHandlerAttempt_AdjustsOutcome(t *testing.T) {
	outcome := invoke.HandlerAttempt{
		View: &invoke.View{Object: widget(1)}, Handler: &invoke.Handler{Do: func(context.Context, *invoke.Request) error { return nil }},
		AdjustOutcome: func(_ context.Context, o progress.Outcome) progress.Outcome {
			return progress.Outcome{Waiting: o.Success, Delay: time.Minute}
		},
	}.Run(t.Context())
	equal(t, "SUB-08 outcome", outcome, progress.Outcome{Waiting: true, Delay: time.Minute})
}

// attempts returns the number of attempts that a label has counted.
func attempts(t *testing.T, kind, label, outcome string) float64 {
	t.Helper()
	var out dto.Metric
	if err := metrics.HandlerAttempts.WithLabelValues(kind, label, outcome).Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetCounter().GetValue()
}

// The attempt is logged and counted under the names of the handler.
func TestHandlerAttempt_LogsAndCounts(t *testing.T) {
	for _, test := range []struct {
		name, metricLabel, label string
		quiet                    bool
	}{
		{name: "ERR-07 a handler", label: "parent/sub-7"},
		{name: "ERR-07 a handler with many ids", metricLabel: "parent/*", label: "parent/*"},
		{name: "ERR-07 a handler without news", label: "parent/sub-7", quiet: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var lines, own []string
			logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: 1})
			kind := t.Name()
			invoke.HandlerAttempt{
				Kind: kind, ID: "parent/sub-7", View: &invoke.View{Object: widget(1), Reason: "update"}, Record: progress.Record{Retries: 2}, QuietSuccess: test.quiet,
				Handler: &invoke.Handler{MetricLabel: test.metricLabel, Do: func(ctx context.Context, _ *invoke.Request) error {
					log.FromContext(ctx).Info("Working")
					own = lines[len(lines)-1:]
					return nil
				}},
			}.Run(log.IntoContext(t.Context(), logger))
			equal(t, "number of attempts", attempts(t, kind, test.label, "succeeded"), 1.0)
			for _, part := range []string{`"msg"="Working"`, `"handler"="parent/sub-7"`, `"reason"="update"`, `"attempt"=2`} {
				if !strings.Contains(own[0], part) {
					t.Errorf("%s is missing in the log of the handler: %s", part, own[0])
				}
			}
			level := `"level"=0`
			if test.quiet {
				level = `"level"=1`
			}
			if last := lines[len(lines)-1]; !strings.Contains(last, level) || !strings.Contains(last, "Handler succeeded") {
				t.Errorf("got the last line %s, want one with \"Handler succeeded\" and %s", last, level)
			}
		})
	}
}

// Metrics count each attempt once, by its outcome.
func TestAttempt_CountsOutcomes(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		outcome string
		ctx     context.Context // default: that of the test
		policy  progress.Policy
		do      func(context.Context) error
		adjust  func(progress.Outcome) progress.Outcome
		panics  float64
	}{
		{outcome: "succeeded", do: func(context.Context) error { return nil }},
		{outcome: "retried", do: func(context.Context) error { return errBoom }},
		{outcome: "retried", do: func(context.Context) error { panic("oh") }, panics: 1},
		{outcome: "failed", do: func(context.Context) error { return progress.Permanent(errBoom) }},
		{outcome: "ignored", policy: progress.Policy{Errors: progress.ErrorsIgnored}, do: func(context.Context) error { return errBoom }},
		{outcome: "interrupted", ctx: cancelled, do: func(ctx context.Context) error { return ctx.Err() }},
		{
			outcome: "waiting", do: func(context.Context) error { return nil },
			adjust: func(progress.Outcome) progress.Outcome { return progress.Outcome{Waiting: true} },
		},
	} {
		t.Run("ERR-07 B-23 "+test.outcome, func(t *testing.T) {
			kind, ctx := t.Name(), test.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			invoke.Attempt(ctx, invoke.Invocation{Kind: kind, ID: "fn", Policy: test.policy, Func: test.do, AdjustOutcome: test.adjust})
			for _, outcome := range []string{"succeeded", "ignored", "retried", "failed", "interrupted", "waiting"} {
				want := 0.0
				if outcome == test.outcome {
					want = 1
				}
				equal(t, "number of attempts that are "+outcome, attempts(t, kind, "fn", outcome), want)
			}
			var out dto.Metric
			if err := metrics.HandlerPanics.WithLabelValues(kind, "fn").Write(&out); err != nil {
				t.Fatal(err)
			}
			equal(t, "number of panics", out.GetCounter().GetValue(), test.panics)
			duration, _ := metrics.HandlerDuration.WithLabelValues(kind, "fn").(prometheus.Metric)
			if err := duration.Write(&out); err != nil {
				t.Fatal(err)
			}
			equal(t, "number of durations", out.GetHistogram().GetSampleCount(), uint64(1))
		})
	}
}

// QuietSuccess concerns only success without an error. Interruptions are logged without a stack.
func TestAttempt_LogsFailuresOfQuietHandlers(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name   string
		ctx    context.Context
		policy progress.Policy
		err    error
		want   string
	}{
		{"ERR-07 retried", t.Context(), progress.Policy{}, progress.Temporary(errBoom, time.Second), "Handler failed and will be retried"},
		{"ERR-07 ignored", t.Context(), progress.Policy{Errors: progress.ErrorsIgnored}, errBoom, "Handler failed; the error is ignored"},
		{"ERR-07 interrupted", cancelled, progress.Policy{}, errBoom, "Handler interrupted; its attempt does not count"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var lines []string
			logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
			invoke.Attempt(log.IntoContext(test.ctx, logger), invoke.Invocation{
				ID: "fn", Policy: test.policy, QuietSuccess: true, Func: func(context.Context) error { return test.err },
			})
			if len(lines) != 1 || !strings.Contains(lines[0], `"level"=0`) || !strings.Contains(lines[0], test.want) || !strings.Contains(lines[0], `"error"="boom"`) {
				t.Errorf("the log is %q, want one line with %q and the error", lines, test.want)
			}
		})
	}
}

func TestBackgroundHandler_Reason(t *testing.T) {
	daemon, timer := &invoke.BackgroundHandler{}, &invoke.BackgroundHandler{Task: daemons.Task{Timer: &daemons.Timer{}}}
	equal(t, "KW-08 reason of a daemon", daemon.Reason(), "daemon")
	equal(t, "KW-08 reason of a timer", timer.Reason(), "timer")
}

// The warnings of a handler apply to its attempts.
func TestHandlerAttempt_Warns(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	invoke.HandlerAttempt{
		View: &invoke.View{Object: widget(1)},
		Handler: &invoke.Handler{
			Warnings: &invoke.Warnings{},
			Do:       func(context.Context, *invoke.Request) error { return progress.Temporary(errBoom, 5) },
		},
	}.Run(log.IntoContext(t.Context(), logger))
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "The delay before the next attempt is very short") {
		t.Errorf("no warning about the delay in:\n%s", text)
	}
}
