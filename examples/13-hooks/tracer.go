package main

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// This file stands in for OpenTelemetry, so that the example needs nothing else. What is called on a tracer
// and on a span in tracing.go is called as OpenTelemetry has it: for the real thing, have this file say
//
//	type Tracer = trace.Tracer // go.opentelemetry.io/otel/trace
//
//	func newTracer() Tracer { return otel.Tracer("13-hooks") } // go.opentelemetry.io/otel
//
// and set up its exporter in main.

// A Tracer starts spans.
type Tracer interface {
	Start(ctx context.Context, name string, opts ...SpanStartOption) (context.Context, Span)
}

// A Span is something that takes its time. It belongs to the one in whose context it was started.
type Span interface {
	RecordError(err error, opts ...EventOption)
	End(opts ...SpanEndOption)
}

// Options of OpenTelemetry; there are none here.
type (
	SpanStartOption any
	SpanEndOption   any
	EventOption     any
)

func newTracer() Tracer { return logTracer{} }

// A logTracer tells of spans in the log, when they have ended.
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
