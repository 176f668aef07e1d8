package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// LazyLogger returns a logger whose derived loggers add their values only when they write their first line. Every reconcile and every
// handler call gets its own loggers, and most of them write one line or none, so encoding all their values up front would take a
// considerable part of a reconcile.
func LazyLogger(logger logr.Logger) logr.Logger {
	base := logger.GetSink()
	if _, isLazy := base.(*lazySink); isLazy || base == nil {
		return logger
	}
	return logger.WithSink(&lazySink{base: withCallDepth(base, 1)}) // the sink's frame
}

// A lazySink is a log sink with values that its base doesn't have yet. The base skips this sink's stack frame. A lazySink is safe for
// concurrent use if its base is.
type lazySink struct {
	base   logr.LogSink
	values []any

	hasWritten atomic.Bool // the sink has written a line
	once       sync.Once
	complete   logr.LogSink // the base with the values; nil until it is needed
}

// forLine returns the sink and the values for a line. Most loggers write a single line, so the first one just passes the logger's values
// along with its own, which is cheaper than adding them to the base.
func (s *lazySink) forLine(keysAndValues []any) (logr.LogSink, []any) {
	if s.hasWritten.Swap(true) || len(s.values) == 0 {
		return s.resolve(), keysAndValues
	}
	return s.base, slices.Concat(s.values, keysAndValues)
}

// resolve returns the base with the values.
func (s *lazySink) resolve() logr.LogSink {
	s.once.Do(func() {
		s.complete = s.base
		if len(s.values) > 0 {
			s.complete = s.base.WithValues(s.values...)
		}
	})
	return s.complete
}

func withCallDepth(base logr.LogSink, depth int) logr.LogSink {
	if deeper, ok := base.(logr.CallDepthLogSink); ok {
		return deeper.WithCallDepth(depth)
	}
	return base
}

// Init implements [logr.LogSink]. The base is already initialized.
func (s *lazySink) Init(logr.RuntimeInfo) {}

// Enabled implements [logr.LogSink].
func (s *lazySink) Enabled(level int) bool { return s.base.Enabled(level) }

// Info implements [logr.LogSink].
func (s *lazySink) Info(level int, msg string, keysAndValues ...any) {
	s.GetCallStackHelper()()
	base, values := s.forLine(keysAndValues)
	base.Info(level, msg, values...)
}

// Error implements [logr.LogSink].
func (s *lazySink) Error(err error, msg string, keysAndValues ...any) {
	s.GetCallStackHelper()()
	base, values := s.forLine(keysAndValues)
	base.Error(err, msg, values...)
}

// WithValues implements [logr.LogSink]. If a value can change, it adds all values immediately and returns a sink that isn't lazy.
func (s *lazySink) WithValues(keysAndValues ...any) logr.LogSink {
	switch {
	case len(keysAndValues) == 0:
		return s
	case slices.ContainsFunc(keysAndValues, canChange):
		return withCallDepth(s.resolve().WithValues(keysAndValues...), -1) // without this sink's frame
	}
	return &lazySink{base: s.base, values: slices.Concat(s.values, keysAndValues)}
}

// WithName implements [logr.LogSink].
func (s *lazySink) WithName(name string) logr.LogSink {
	return &lazySink{base: s.base.WithName(name), values: s.values}
}

// WithCallDepth implements [logr.CallDepthLogSink].
func (s *lazySink) WithCallDepth(depth int) logr.LogSink {
	return &lazySink{base: withCallDepth(s.base, depth), values: s.values}
}

// GetCallStackHelper implements [logr.CallStackHelperLogSink].
func (s *lazySink) GetCallStackHelper() func() {
	if helper, ok := s.base.(logr.CallStackHelperLogSink); ok {
		return helper.GetCallStackHelper()
	}
	return func() {}
}

// canChange reports whether a value's text can change before the first line is written.
func canChange(value any) bool {
	switch value.(type) {
	case nil, string, bool, int, int32, int64, uint32, uint64, float64, time.Duration, time.Time, types.UID, types.NamespacedName:
		return false
	}
	return true
}
