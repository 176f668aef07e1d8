package lazylog

import (
	"slices"
	"sync"

	"github.com/go-logr/logr"
)

// New returns a logger that adds its values, and those of all loggers derived from it, when a line is written.
func New(logger logr.Logger) logr.Logger {
	base := logger.GetSink()
	if _, isLazy := base.(*sink); isLazy || base == nil {
		return logger
	}
	return logger.WithSink(&sink{base: withCallDepth(base, 1)}) // the frame of the sink
}

// sink is a log sink with values that its base does not have yet. The base skips the frame of the sink. It is safe for concurrent use if the base is.
type sink struct {
	base   logr.LogSink
	values []any

	once     sync.Once
	complete logr.LogSink // the base with the values; nil until the first line
}

func (s *sink) resolve() logr.LogSink {
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

// Init implements [logr.LogSink]. The base is initialized already.
func (s *sink) Init(logr.RuntimeInfo) {}

// Enabled implements [logr.LogSink].
func (s *sink) Enabled(level int) bool { return s.base.Enabled(level) }

// Info implements [logr.LogSink].
func (s *sink) Info(level int, msg string, keysAndValues ...any) {
	s.resolve().Info(level, msg, keysAndValues...)
}

// Error implements [logr.LogSink].
func (s *sink) Error(err error, msg string, keysAndValues ...any) {
	s.resolve().Error(err, msg, keysAndValues...)
}

// WithValues implements [logr.LogSink].
func (s *sink) WithValues(keysAndValues ...any) logr.LogSink {
	return &sink{base: s.base, values: slices.Concat(s.values, keysAndValues)}
}

// WithName implements [logr.LogSink].
func (s *sink) WithName(name string) logr.LogSink {
	return &sink{base: s.base.WithName(name), values: s.values}
}

// WithCallDepth implements [logr.CallDepthLogSink].
func (s *sink) WithCallDepth(depth int) logr.LogSink {
	return &sink{base: withCallDepth(s.base, depth), values: s.values}
}
