package progress_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var errBoom = errors.New("boom")

func TestErrors_Unwrap(t *testing.T) {
	for _, test := range []struct {
		name, text string
		err        error
	}{
		{"ERR-09 temporary", "boom", progress.Temporary(errBoom, time.Second)},
		{"ERR-09 permanent", "boom", progress.Permanent(errBoom)},
		{"ERR-05 a limit", "timed out: boom", &progress.LimitError{Limit: "timed out", Err: errBoom}},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "text", test.err.Error(), test.text)
			if !errors.Is(test.err, errBoom) {
				t.Error("errors.Is did not find the wrapped error")
			}
		})
	}
}

func TestErrors_WithoutCause(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
	}{
		{"ERR-09 temporary", progress.Temporary(nil, time.Second)},
		{"ERR-09 permanent", progress.Permanent(nil)},
		{"ERR-05 a limit", &progress.LimitError{Limit: "gave up"}},
		{"B-23 a panic", &progress.PanicError{Value: "boom"}},
		{"a temporary error without a constructor", &progress.TemporaryError{}},
		{"a permanent error without a constructor", &progress.PermanentError{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.err == nil || test.err.Error() == "" {
				t.Errorf("got %v, want an error with a text", test.err)
			}
		})
	}
}

// An error without a cause explains the problem and never counts as success.
func TestTemporaryAndPermanent_NilError(t *testing.T) {
	var temporary *progress.TemporaryError
	for name, test := range map[string]struct {
		err   error
		want  string
		final bool
	}{
		"Temporary(nil)":                {progress.Temporary(nil, time.Second), "Temporary(nil): pass the cause of the failure, or return nil for success", false},
		"Permanent(nil)":                {progress.Permanent(nil), "Permanent(nil): pass the cause of the failure, or return nil for success", true},
		"an empty struct":               {&progress.TemporaryError{}, "Temporary(nil): pass the cause of the failure, or return nil for success", false},
		"a nil pointer":                 {temporary, "handler returned a nil *progress.TemporaryError as its error: declare the variable as error, or return nil for success", false},
		"a nil pointer of another type": {(*apierrors.StatusError)(nil), "handler returned a nil *errors.StatusError as its error: declare the variable as error, or return nil for success", false},
	} {
		t.Run(name, func(t *testing.T) {
			out := progress.Policy{}.Attempt(t.Context(), progress.Record{}, time.Now(), func(context.Context) error { return test.err })
			equal(t, "success", out.Success, false)
			equal(t, "final", out.Final, test.final)
			equal(t, "text", out.Err.Error(), test.want)
		})
	}
}

func TestTemporary_Delay(t *testing.T) {
	for _, test := range []struct {
		name        string
		delay, want time.Duration
	}{
		{"ERR a delay", time.Minute, time.Minute},
		{"ERR immediately", 0, 0},
		{"ERR a negative delay", -time.Minute, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var err *progress.TemporaryError
			if !errors.As(progress.Temporary(errBoom, test.delay), &err) {
				t.Fatal("got another type, want a TemporaryError")
			}
			equal(t, "delay", err.Delay, test.want)
		})
	}
}

func TestExpected(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want bool
	}{
		{"ERR-07 B-27 temporary", progress.Temporary(errBoom, 0), true},
		{"ERR-07 B-27 temporary, wrapped", fmt.Errorf("a: %w", progress.Temporary(errBoom, 0)), true},
		{"ERR-07 B-27 permanent", progress.Permanent(errBoom), true},
		{"ERR-07 B-27 permanent, wrapped", fmt.Errorf("a: %w", progress.Permanent(errBoom)), true},
		{"ERR-07 B-27 terminal", reconcile.TerminalError(errBoom), true},
		{"ERR-07 B-27 a limit", &progress.LimitError{Limit: "timed out"}, true},
		{"ERR-07 B-27 a limit of expected errors", &progress.LimitError{Limit: "timed out", Err: progress.Temporary(errBoom, 0)}, true},
		{"ERR-07 B-27 a limit of unknown errors", &progress.LimitError{Limit: "timed out", Err: errBoom}, false},
		{"B-23 a limit of panics", &progress.LimitError{Limit: "timed out", Err: &progress.PanicError{Value: "boom"}}, false},
		{"ERR-07 B-27 joined with a permanent error", errors.Join(errBoom, progress.Permanent(errBoom)), true},
		{"ERR-07 B-27 unexpected", errBoom, false},
		{"ERR-07 B-23 a panic", &progress.PanicError{Value: "boom"}, false},
		{"ERR-07 nil", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "expected", progress.Expected(test.err), test.want)
		})
	}
}
