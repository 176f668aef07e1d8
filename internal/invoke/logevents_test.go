package invoke_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
)

// callWithLogEvents calls a handler that logs something. It returns the posted Events and the logged lines.
func callWithLogEvents(t *testing.T, logSomething func(logr.Logger)) (events, lines []string) {
	t.Helper()
	do := invoke.WithLogEvents(func(ctx context.Context, _ *invoke.Request) error {
		logSomething(log.FromContext(ctx))
		return errBoom
	})
	logger := funcr.New(func(prefix, args string) { lines = append(lines, strings.TrimSpace(prefix+" "+args)) }, funcr.Options{Verbosity: 1, LogCaller: funcr.All})
	req := &invoke.Request{ID: "create", Notify: func(about client.Object, eventType, reason, action, note string, args ...any) {
		if about != nil || reason != "Logging" || action != "create" {
			t.Errorf("an Event about %v has the reason %q and the action %q, want %q, the id and the handled object", about, reason, action, "Logging")
		}
		events = append(events, eventType+" "+fmt.Sprintf(note, args...))
	}}
	if err := do(log.IntoContext(t.Context(), logger.WithValues("uid", 1)), req); !errors.Is(err, errBoom) {
		t.Errorf("the error is %v, want the error of the handler", err)
	}
	return events, lines
}

func TestWithLogEvents_PostsLinesAndErrors(t *testing.T) {
	for name, test := range map[string]struct {
		log  func(logr.Logger)
		want []string
	}{
		"a line":                {func(l logr.Logger) { l.Info("Resized") }, []string{"Normal create: Resized"}},
		"a line with values":    {func(l logr.Logger) { l.Info("Resized", "size", 2, "by", "user") }, []string{"Normal create: Resized size=2 by=user"}},
		"a value without a key": {func(l logr.Logger) { l.Info("Resized", []any{"size"}...) }, []string{"Normal create: Resized"}},
		"a percent sign":        {func(l logr.Logger) { l.Info("Resized to 50%s") }, []string{"Normal create: Resized to 50%s"}},
		"a line at V(1)":        {func(l logr.Logger) { l.V(1).Info("Reading") }, nil},
		"an error":              {func(l logr.Logger) { l.Error(errBoom, "Failed to resize", "size", 2) }, []string{"Warning create: Failed to resize size=2: boom"}},
		"an error at V(1)":      {func(l logr.Logger) { l.V(1).Error(errBoom, "Failed to resize") }, []string{"Warning create: Failed to resize: boom"}},
		"no error":              {func(l logr.Logger) { l.Error(nil, "Failed to resize") }, []string{"Warning create: Failed to resize"}},
		"WithName":              {func(l logr.Logger) { l.WithName("resizer").Info("Resized") }, []string{"Normal create: Resized"}},
		"WithValues":            {func(l logr.Logger) { l.WithValues("size", 2).Info("Resized") }, []string{"Normal create: Resized"}},
		"WithCallDepth":         {func(l logr.Logger) { l.WithCallDepth(0).Info("Resized") }, []string{"Normal create: Resized"}},
		"several lines":         {func(l logr.Logger) { l.Info("Resizing"); l.Info("Resized") }, []string{"Normal create: Resizing", "Normal create: Resized"}},
	} {
		t.Run(name, func(t *testing.T) {
			if events, lines := callWithLogEvents(t, test.log); !slices.Equal(events, test.want) || len(lines) != max(len(test.want), 1) {
				t.Errorf("Events %q, want %q, and lines %q", events, test.want, lines)
			}
		})
	}
}

// The wrapped logger still logs the values and the name of the logger, and the line of code that logs.
func TestWithLogEvents_KeepsLogLines(t *testing.T) {
	var line int
	logDeeper := func(l logr.Logger) { l.WithCallDepth(1).Info("Resized") }
	_, lines := callWithLogEvents(t, func(l logr.Logger) {
		_, _, line, _ = runtime.Caller(0)
		l.WithName("resizer").WithValues("size", 2).Info("Resized", "by", "user")
		logDeeper(l)
	})
	for i, want := range [][]string{{"resizer", `"uid"=1`, `"size"=2`, `"by"="user"`}, {`"uid"=1`}} {
		for _, part := range append(want, fmt.Sprintf(`"file"="logevents_test.go" "line"=%d`, line+i+1)) {
			if !strings.Contains(lines[i], part) {
				t.Errorf("%s is missing in %s", part, lines[i])
			}
		}
	}
}

// Without a logger or without a function that posts Events, the handler receives the context unchanged.
func TestWithLogEvents_WithoutLoggerOrNotify(t *testing.T) {
	notify := func(client.Object, string, string, string, string, ...any) { t.Error("an Event was posted") }
	for name, test := range map[string]struct {
		logger logr.Logger
		req    *invoke.Request
	}{
		"without a logger": {logr.Logger{}, &invoke.Request{Notify: notify}},
		"without Notify":   {funcr.New(func(string, string) {}, funcr.Options{}), &invoke.Request{}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, called := log.IntoContext(t.Context(), test.logger), false
			err := invoke.WithLogEvents(func(got context.Context, req *invoke.Request) error {
				called = true
				if got != ctx || req != test.req {
					t.Error("the context or the request differs")
				}
				log.FromContext(got).Info("Resized")
				return nil
			})(ctx, test.req)
			if err != nil || !called {
				t.Errorf("error %v, called: %t", err, called)
			}
		})
	}
}
