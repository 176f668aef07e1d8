package invoke_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var errBoom = errors.New("boom")

// Expected errors are logged on info level, unexpected ones on error level.
func TestAttempt_LogsOutcome(t *testing.T) {
	returns := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	for _, test := range []struct {
		name   string
		policy progress.Policy
		do     func(context.Context) error
		then   func(progress.Outcome) progress.Outcome
		quiet  bool
		want   []string // parts of the log line
		isErr  bool
	}{
		{name: "ERR-07 success", do: returns(nil), want: []string{`"level"=0`, `"Handler succeeded"`}},
		{name: "ERR-07 quiet success", do: returns(nil), quiet: true, want: []string{`"level"=1`, `"Handler succeeded"`}},
		{
			name: "ERR-07 B-27 temporary", do: returns(progress.Temporary(errBoom, time.Second)),
			want: []string{`"level"=0`, `"Handler failed and will be retried"`, `"error"="boom"`, `"retryAfter"="1s"`},
		},
		{
			name: "ERR-07 B-27 permanent", do: returns(progress.Permanent(errBoom)),
			want: []string{`"level"=0`, `"Handler failed permanently"`, `"error"="boom"`},
		},
		{
			name: "ERR-07 B-27 no attempts left", do: returns(nil), policy: progress.Policy{Retries: new(0)},
			want: []string{`"level"=0`, `"Handler failed permanently"`, "0 attempts"},
		},
		{
			name: "ERR-07 B-27 unexpected error", do: returns(errBoom),
			want: []string{`"Handler failed and will be retried"`, `"error"="boom"`}, isErr: true,
		},
		{
			name: "ERR-07 B-27 unexpected error, permanent", do: returns(errBoom), policy: progress.Policy{Errors: progress.ErrorsPermanent},
			want: []string{`"Handler failed permanently"`, `"error"="boom"`}, isErr: true,
		},
		{
			name: "ERR-07 B-27 unexpected error, ignored", do: returns(errBoom), policy: progress.Policy{Errors: progress.ErrorsIgnored},
			want: []string{`"level"=0`, "ignored", `"error"="boom"`},
		},
		{
			name: "ERR-07 B-23 panic with stack", do: func(context.Context) error { panic("oh") },
			want: []string{`"Handler failed and will be retried"`, `"error"="panic: oh"`, `"stack"=`, "attempt_test.go"}, isErr: true,
		},
		{
			name: "ERR-07 waiting for sub-handlers", do: returns(nil),
			then: func(progress.Outcome) progress.Outcome { return progress.Outcome{Waiting: true, Delay: time.Minute} },
			want: []string{`"level"=1`, "waits for its sub-handlers", `"1m0s"`},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var lines []string
			logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1})
			invoke.Attempt(log.IntoContext(t.Context(), logger), invoke.Invocation{
				Kind: "widget", ID: "fn", Reason: "create", Policy: test.policy, QuietSuccess: test.quiet,
				Record: progress.Record{Started: time.Now()}, Func: test.do, AdjustOutcome: test.then,
			})
			if len(lines) != 2 || !strings.Contains(lines[0], `"level"=1`) || !strings.Contains(lines[0], "Calling the handler") {
				t.Fatalf("ERR-07: want a debug line before the attempt and a line with its outcome, got:\n%s", strings.Join(lines, "\n"))
			}
			line := lines[1]
			for _, part := range append(test.want, `"handler"="fn"`, `"reason"="create"`, `"attempt"=0`) {
				if !strings.Contains(line, part) {
					t.Errorf("%s is missing in:\n%s", part, line)
				}
			}
			if isErr := !strings.Contains(line, `"level"=`); isErr != test.isErr {
				t.Errorf("logged as an error: %t, want %t:\n%s", isErr, test.isErr, line)
			}
			if hasStack := strings.Contains(line, `"stack"=`); hasStack != strings.Contains(test.name, "stack") {
				t.Errorf("logged with a stack: %t, want %t:\n%s", hasStack, !hasStack, line)
			}
		})
	}
}
