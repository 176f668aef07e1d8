package main

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// This file replaces OpenTelemetry, so that the example has no further dependency. Tracer and Span have the same methods
// as in OpenTelemetry. To use OpenTelemetry, replace this file with
//
//	type Tracer = trace.Tracer // go.opentelemetry.io/otel/trace
//
//	func newTracer() Tracer { return otel.Tracer("13-hooks") } // go.opentelemetry.io/otel
//
// and set up the exporter in main.

// A Tracer starts spans.
type Tracer interface {
	Start(ctx context.Context, name string, opts ...SpanStartOption) (context.Context, Span)
}

// A Span is a timed operation. Its parent is the span in the context that starts it.
type Span interface {
	RecordError(err error, opts ...EventOption)
	End(opts ...SpanEndOption)
}

// The option types of OpenTelemetry are unused here.
type (
	SpanStartOption any
	SpanEndOption   any
	EventOption     any
)

func newTracer() Tracer { return logTracer{} }

// A logTracer logs each span when it ends.
type logTracer struct{}

type logSpan struct {
	ctx          context.Context
	name, parent string
	started      time.Time
	err          error
}

type spanKey struct{}

func (logTracer) Start(ctx context.Context, name string, _ ...SpanStartOption) (context.Context, Span) {
	span := &logSpan{ctx: ctx, name: name, started: time.Now()}
	if parent, ok := ctx.Value(spanKey{}).(*logSpan); ok {
		span.parent = parent.name
	}
	return context.WithValue(ctx, spanKey{}, span), span
}

func (s *logSpan) RecordError(err error, _ ...EventOption) { s.err = err }

func (s *logSpan) End(...SpanEndOption) {
	logger := log.FromContext(s.ctx).WithValues("span", s.name, "in", s.parent, "took", time.Since(s.started).String())
	if s.err != nil {
		logger = logger.WithValues("failed", s.err.Error())
	}
	logger.Info("Span")
}
