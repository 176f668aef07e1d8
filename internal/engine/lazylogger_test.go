package engine_test

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
)

// writeLines writes lines with loggers that are derived in different ways.
func writeLines(logger logr.Logger) {
	object := logger.WithValues("namespace", "ns", "name", "one")
	object.Info("an object")
	handler := object.WithName("part").WithValues("handler", "h")
	handler.V(1).Info("details", "took", "1s")
	handler.Error(errors.New("failed"), "an error", "took", "2s")
	handler.WithCallDepth(0).Info("the same depth")
	logger.Info("no values")
	object.WithValues("name", "two").Info("a second value of a key")
	helper(handler.WithCallDepth(1))
	labels := map[string]string{"app": "shop"}
	labeled := object.WithValues("labels", labels).WithValues("after", 1)
	labels["app"] = "changed"
	labeled.Info("a value that changes")
	logger.WithName("only").Info("only a name")
}

func helper(logger logr.Logger) { logger.Info("called by a helper") }

var timestamp = regexp.MustCompile(`"ts":[0-9.]+,`)

func TestLazyLogger_WritesTheSameLines(t *testing.T) {
	for name, newLogger := range map[string]func(out *bytes.Buffer) logr.Logger{
		"zap": func(out *bytes.Buffer) logr.Logger {
			return zap.New(zap.WriteTo(out), zap.UseDevMode(true), zap.JSONEncoder())
		},
		"funcr": func(out *bytes.Buffer) logr.Logger {
			return funcr.New(func(prefix, args string) { out.WriteString(prefix + " " + args + "\n") }, funcr.Options{LogCaller: funcr.All, Verbosity: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var want, got bytes.Buffer
			for _, logger := range []logr.Logger{newLogger(&want), engine.LazyLogger(newLogger(&got))} {
				writeLines(logger) // in one line, because errors have a stack
			}
			if timestamp.ReplaceAllString(got.String(), "") != timestamp.ReplaceAllString(want.String(), "") {
				t.Errorf("lines:\n%s\nwant:\n%s", got.String(), want.String())
			}
			if lines := strings.Count(want.String(), "\n"); lines != 9 {
				t.Errorf("%d lines, want 9", lines)
			}
		})
	}
}

func TestLazyLogger_WithoutASink(t *testing.T) {
	logger := engine.LazyLogger(logr.Logger{})
	logger.WithValues("key", "value").Info("nothing happens")
	if logger.GetSink() != nil {
		t.Errorf("sink = %v, want none", logger.GetSink())
	}
}

func TestLazyLogger_AddsNoValuesWithoutALine(t *testing.T) {
	counting := &countingSink{}
	logger := engine.LazyLogger(logr.New(counting)).WithValues("a", 1).WithValues("b", 2).WithValues()
	logger.V(1).Info("this level is not enabled")
	if counting.added > 0 {
		t.Errorf("values were added %d times before the first line", counting.added)
	}
	var writers sync.WaitGroup
	for range 10 {
		writers.Go(func() { logger.WithValues().Info("a line") }) // like log.FromContext
	}
	writers.Wait()
	if counting.added != 1 || counting.lines != 10 {
		t.Errorf("values were added %d times for %d lines, want once for 10", counting.added, counting.lines)
	}
}

// helperSink counts the calls of its stack helper.
type helperSink struct {
	countingSink
	helped int
}

func (s *helperSink) GetCallStackHelper() func() { return func() { s.helped++ } }

func TestLazyLogger_MarksItsFrames(t *testing.T) {
	helper := &helperSink{}
	engine.LazyLogger(logr.New(helper)).Info("a line")
	if helper.helped != 2 {
		t.Errorf("%d frames are marked, want 2: of logr and of the lazy logger", helper.helped)
	}
}

// countingSink counts lines and calls of WithValues.
type countingSink struct {
	mu           sync.Mutex
	added, lines int
}

func (*countingSink) Init(logr.RuntimeInfo)       {}
func (*countingSink) Enabled(level int) bool      { return level == 0 }
func (*countingSink) Error(error, string, ...any) {}

func (s *countingSink) Info(int, string, ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines++
}

func (s *countingSink) WithValues(...any) logr.LogSink {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.added++
	return s
}

func (s *countingSink) WithName(string) logr.LogSink { return s }
