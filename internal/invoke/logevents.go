package invoke

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// reasonLogging is the reason of Events for log lines, as in kopf.
const reasonLogging = "Logging"

// WithLogEvents returns a function that calls do with a logger that also posts Events, for errors and for lines at V(0).
func WithLogEvents(do func(context.Context, *Request) error) func(context.Context, *Request) error {
	return func(ctx context.Context, req *Request) error {
		logger := log.FromContext(ctx)
		sink := logger.GetSink()
		if sink == nil || req.Notify == nil {
			return do(ctx, req)
		}
		if deeper, ok := sink.(logr.CallDepthLogSink); ok {
			sink = deeper.WithCallDepth(1) // the frame of eventSink
		}
		post := func(eventType, line string) {
			req.Notify(nil, eventType, reasonLogging, req.ID, "%s: %s", req.ID, line)
		}
		return do(log.IntoContext(ctx, logger.WithSink(eventSink{sink, post})), req)
	}
}

// eventSink is a log sink that also posts errors and lines at V(0) as Events about the object. The Events include the values of the line,
// but not those of the logger.
type eventSink struct {
	logr.LogSink
	post func(eventType, note string)
}

// Info implements [logr.LogSink].
func (s eventSink) Info(level int, msg string, keysAndValues ...any) {
	s.LogSink.Info(level, msg, keysAndValues...)
	if level == 0 {
		s.post(corev1.EventTypeNormal, withValues(msg, keysAndValues))
	}
}

// Error implements [logr.LogSink].
func (s eventSink) Error(err error, msg string, keysAndValues ...any) {
	s.LogSink.Error(err, msg, keysAndValues...)
	note := withValues(msg, keysAndValues)
	if err != nil {
		note += ": " + err.Error()
	}
	s.post(corev1.EventTypeWarning, note)
}

// WithValues implements [logr.LogSink].
func (s eventSink) WithValues(keysAndValues ...any) logr.LogSink {
	return eventSink{s.LogSink.WithValues(keysAndValues...), s.post}
}

// WithName implements [logr.LogSink].
func (s eventSink) WithName(name string) logr.LogSink {
	return eventSink{s.LogSink.WithName(name), s.post}
}

// WithCallDepth implements [logr.CallDepthLogSink].
func (s eventSink) WithCallDepth(depth int) logr.LogSink {
	if deeper, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return eventSink{deeper.WithCallDepth(depth), s.post}
	}
	return s
}

func withValues(msg string, keysAndValues []any) string {
	var note strings.Builder
	note.WriteString(msg)
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		fmt.Fprintf(&note, " %v=%v", keysAndValues[i], keysAndValues[i+1])
	}
	return note.String()
}
