package invoke_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A delay without a unit is logged once for each handler.
func TestWarnings_LogDelayWithoutUnitOnce(t *testing.T) {
	const warning = `"msg"="The delay before the next attempt is very short"`
	for name, test := range map[string]struct {
		policy progress.Policy
		err    error
		want   int
	}{
		"Temporary":                {progress.Policy{}, progress.Temporary(errBoom, 5), 1},
		"BackoffFunc":              {progress.Policy{BackoffFunc: func(progress.Attempt, error) time.Duration { return 5 }}, errBoom, 1},
		"a delay of zero":          {progress.Policy{}, progress.Temporary(errBoom, 0), 0},
		"a delay with a unit":      {progress.Policy{}, progress.Temporary(errBoom, time.Millisecond), 0},
		"no further attempt":       {progress.Policy{Retries: new(1)}, progress.Temporary(errBoom, 5), 0},
		"success":                  {progress.Policy{}, nil, 0},
		"an error without a delay": {progress.Policy{}, errBoom, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
			warnings := &invoke.Warnings{}
			for range 3 {
				invoke.Attempt(log.IntoContext(t.Context(), logger), invoke.Invocation{
					Kind: "hints", ID: "h", Policy: test.policy, Warnings: warnings, Func: func(context.Context) error { return test.err },
				})
			}
			got := 0
			for _, line := range lines {
				if !strings.Contains(line, warning) {
					continue
				}
				got++
				for _, part := range []string{`"handler"="h"`, `"delay"="5ns; durations need a unit: 5*time.Second"`} {
					if !strings.Contains(line, part) {
						t.Errorf("%s is missing in %s", part, line)
					}
				}
			}
			if got != test.want {
				t.Errorf("%d warnings, want %d, in:\n%s", got, test.want, strings.Join(lines, "\n"))
			}
		})
	}
}

// Only the delay before another attempt can lack a unit.
func TestWarnings_IgnoreOtherOutcomes(t *testing.T) {
	for name, outcome := range map[string]progress.Outcome{
		"final":       {Final: true, Delay: 5},
		"waiting":     {Waiting: true, Delay: 5},
		"interrupted": {Interrupted: true, Delay: 5},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
			new(invoke.Warnings).WarnMissingUnit(func() logr.Logger { return logger }, outcome)
			equal(t, "log", lines, []string(nil))
		})
	}
	var none *invoke.Warnings
	none.WarnMissingUnit(func() logr.Logger {
		return funcr.New(func(_, line string) { t.Errorf("nil Warnings log %s", line) }, funcr.Options{})
	}, progress.Outcome{Delay: 5})
}
