package kopfotel

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const scopeName = "github.com/kopf-runtime/kopf-runtime/contrib/otel"

// Tracing returns an option that records a span for each attempt of each handler, except for admission handlers. If the provider is nil, the spans go to the
// global provider.
//
// The name of the span is the id of the handler. The context of the handler contains the span, so that clients with instrumentation continue the trace. The
// span of a sub-handler is a child of the span of its parent. All other spans are roots. If the context contains a span of other code, the span links to it.
// The logger in the context of the handler has the id of the trace as "traceID".
//
// All attempts of cause handlers in one cycle have one trace id. The id is a hash of the uid of the object, the reason and the
// start of the cycle. The attempts of another handler have one trace id until the handler succeeds or fails permanently, or
// until the process ends. The sampler of the provider receives this id and all attributes except for the outcome.
func Tracing(provider trace.TracerProvider) kopf.Option {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	t := attemptTracer{provider.Tracer(scopeName, trace.WithSchemaURL(semconv.SchemaURL))}
	return kopf.WithAttemptHook(t.begin)
}

type attemptTracer struct{ tracer trace.Tracer }

// insideKey marks the context of an attempt, which sub-handlers receive.
type insideKey struct{}

// begin starts the span of an attempt.
func (t attemptTracer) begin(ctx context.Context, a kopf.AttemptInfo) (context.Context, func(progress.Outcome)) {
	options := []trace.SpanStartOption{trace.WithAttributes(attributesOf(a)...)}
	if ctx.Value(insideKey{}) == nil {
		if other := trace.SpanContextFromContext(ctx); other.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: other}))
		}
		// A parent without a span id is not valid, so the sampler decides as for a root. The SDK nevertheless uses its trace id.
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID(a), Remote: true}))
		ctx = context.WithValue(ctx, insideKey{}, true)
	}
	ctx, span := t.tracer.Start(ctx, a.Handler, options...)
	if id := span.SpanContext().TraceID(); id.IsValid() {
		ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("traceID", id.String()))
	}
	return ctx, func(outcome progress.Outcome) { end(span, outcome) }
}

// traceID returns the trace id of an attempt.
func traceID(a kopf.AttemptInfo) trace.TraceID {
	started, id := a.CycleStarted, ""
	if started.IsZero() { // the handler has no cycle, so each handler has its own trace
		started, id = a.Attempt.Started, a.Handler
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d", a.UID, a.Reason, id, started.UnixMicro()))
	return trace.TraceID(sum[:len(trace.TraceID{})])
}

// end records the outcome of an attempt, and ends its span.
func end(span trace.Span, outcome progress.Outcome) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	label := labelOf(outcome)
	span.SetAttributes(attribute.String("kopf.outcome", label))
	if label == "retried" {
		span.SetAttributes(attribute.Float64("kopf.retry.delay", outcome.Delay.Seconds()))
	}
	if outcome.Err == nil {
		return
	}
	var options []trace.EventOption
	if panicked, ok := errors.AsType[*progress.PanicError](outcome.Err); ok {
		options = append(options, trace.WithAttributes(semconv.ExceptionStacktrace(string(panicked.Stack))))
	}
	span.RecordError(outcome.Err, options...)
	if label == "retried" || label == "failed" {
		span.SetStatus(codes.Error, outcome.Err.Error())
	}
}

// labelOf returns the word for an outcome, as in the metric kopf_handler_attempts_total.
func labelOf(outcome progress.Outcome) string {
	switch {
	case outcome.Interrupted:
		return "interrupted"
	case outcome.Waiting:
		return "waiting"
	case outcome.Success && outcome.Err == nil:
		return "succeeded"
	case outcome.Success:
		return "ignored"
	case outcome.Final:
		return "failed"
	default:
		return "retried"
	}
}

// attributesOf returns the attributes that are known when the attempt starts.
func attributesOf(a kopf.AttemptInfo) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		attribute.String("kopf.handler", a.Handler),
		attribute.String("kopf.reason", string(a.Reason)),
		attribute.Int("kopf.attempt", a.Attempt.Number),
		attribute.String("kopf.object.group", a.Kind.Group),
		attribute.String("kopf.object.version", a.Kind.Version),
		attribute.String("kopf.object.kind", a.Kind.Kind),
		attribute.String("kopf.object.name", a.Object.Name),
		attribute.String("kopf.object.uid", string(a.UID)),
	}
	if a.Object.Namespace != "" {
		attributes = append(attributes, semconv.K8SNamespaceName(a.Object.Namespace))
	}
	if conventional, ok := conventions[a.Kind.GroupKind()]; ok {
		if conventional.name != nil {
			attributes = append(attributes, conventional.name(a.Object.Name))
		}
		if conventional.uid != nil {
			attributes = append(attributes, conventional.uid(string(a.UID)))
		}
	}
	return attributes
}

// conventions are the attributes of kinds in the semantic conventions of OpenTelemetry.
var conventions = map[schema.GroupKind]struct {
	name, uid func(string) attribute.KeyValue
}{
	{Kind: "Namespace"}:                                     {name: semconv.K8SNamespaceName},
	{Kind: "Node"}:                                          {semconv.K8SNodeName, semconv.K8SNodeUID},
	{Kind: "PersistentVolume"}:                              {semconv.K8SPersistentvolumeName, semconv.K8SPersistentvolumeUID},
	{Kind: "PersistentVolumeClaim"}:                         {semconv.K8SPersistentvolumeclaimName, semconv.K8SPersistentvolumeclaimUID},
	{Kind: "Pod"}:                                           {semconv.K8SPodName, semconv.K8SPodUID},
	{Kind: "ReplicationController"}:                         {semconv.K8SReplicationControllerName, semconv.K8SReplicationControllerUID},
	{Kind: "ResourceQuota"}:                                 {semconv.K8SResourceQuotaName, semconv.K8SResourceQuotaUID},
	{Kind: "Service"}:                                       {semconv.K8SServiceName, semconv.K8SServiceUID},
	{Group: "apps", Kind: "DaemonSet"}:                      {semconv.K8SDaemonSetName, semconv.K8SDaemonSetUID},
	{Group: "apps", Kind: "Deployment"}:                     {semconv.K8SDeploymentName, semconv.K8SDeploymentUID},
	{Group: "apps", Kind: "ReplicaSet"}:                     {semconv.K8SReplicaSetName, semconv.K8SReplicaSetUID},
	{Group: "apps", Kind: "StatefulSet"}:                    {semconv.K8SStatefulSetName, semconv.K8SStatefulSetUID},
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: {semconv.K8SHPAName, semconv.K8SHPAUID},
	{Group: "batch", Kind: "CronJob"}:                       {semconv.K8SCronJobName, semconv.K8SCronJobUID},
	{Group: "batch", Kind: "Job"}:                           {semconv.K8SJobName, semconv.K8SJobUID},
	{Group: "storage.k8s.io", Kind: "StorageClass"}:         {name: semconv.K8SStorageclassName},
}
