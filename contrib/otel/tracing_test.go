package kopfotel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kopfotel "github.com/kopf-runtime/kopf-runtime/contrib/otel"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

type (
	configMap = *corev1.ConfigMap
	handler   = kopf.Handler[configMap]
)

func newConfigMap(name string) configMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func succeed(context.Context, *kopf.Request[configMap]) error { return nil }

// newRecorder returns a provider, and a recorder of its spans.
func newRecorder(options ...sdktrace.TracerProviderOption) (trace.TracerProvider, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	return sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(recorder))...), recorder
}

// spansOf returns the ended spans with a name. It fails the test if a span has not ended.
func spansOf(t *testing.T, recorder *tracetest.SpanRecorder, name string) (spans []sdktrace.ReadOnlySpan) {
	t.Helper()
	if started, ended := len(recorder.Started()), len(recorder.Ended()); started != ended {
		t.Errorf("%d spans have started, and %d have ended", started, ended)
	}
	for _, span := range recorder.Ended() {
		if span.Name() == name {
			spans = append(spans, span)
		}
	}
	return spans
}

// firstSpan returns the first ended span with a name.
func firstSpan(t *testing.T, recorder *tracetest.SpanRecorder, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	spans := spansOf(t, recorder, name)
	if len(spans) == 0 {
		t.Fatalf("there is no span %q", name)
	}
	return spans[0]
}

func attributesOf(span sdktrace.ReadOnlySpan) map[string]string {
	attributes := map[string]string{}
	for _, a := range span.Attributes() {
		attributes[string(a.Key)] = a.Value.String()
	}
	return attributes
}

// All attempts of the handlers of a cycle are in one trace, also after a crash. The next cycle has another trace.
func TestTracing_OneTraceForEachCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(1234567 * time.Nanosecond)
		provider, recorder := newRecorder()
		failures := 2
		setup := func() []kopf.Option {
			return []kopf.Option{kopfotel.Tracing(provider), kopf.For(&corev1.ConfigMap{}).
				OnCreate("announce", succeed).
				OnCreateOrUpdate("provision", func(context.Context, *kopf.Request[configMap]) error {
					if failures--; failures >= 0 {
						return kopf.Temporary(errors.New("busy"), time.Minute)
					}
					return nil
				})}
		}
		cluster := kopftest.Memory(t)
		obj := newConfigMap("one")
		cluster.Create(t, obj)
		operator := cluster.Run(t, setup()...)
		<-time.After(30 * time.Second)
		operator.Crash(t)
		operator = cluster.Run(t, setup()...)
		operator.RunUntilQuiet(t)
		<-time.After(time.Hour)
		for _, size := range []string{"1", "2"} {
			kopftest.Edit(t, cluster, obj, func(obj configMap) { obj.Data = map[string]string{"size": size} })
			operator.RunUntilQuiet(t)
			<-time.After(time.Hour)
		}
		first, provisions := firstSpan(t, recorder, "announce").SpanContext(), spansOf(t, recorder, "provision")
		if len(provisions) != 5 {
			t.Fatalf("number of spans = %d, want 5", len(provisions))
		}
		spanIDs := map[trace.SpanID]bool{first.SpanID(): true}
		traceIDs := map[trace.TraceID]bool{}
		for i, span := range provisions {
			spanIDs[span.SpanContext().SpanID()], traceIDs[span.SpanContext().TraceID()] = true, true
			if inCreation := i < 3; inCreation != (span.SpanContext().TraceID() == first.TraceID()) {
				t.Errorf("attempt %d has the trace id %s, and the creation %s", i, span.SpanContext().TraceID(), first.TraceID())
			}
			if span.Parent().SpanID().IsValid() {
				t.Errorf("attempt %d has the parent %s, want a root", i, span.Parent().SpanID())
			}
		}
		if len(spanIDs) != 6 || len(traceIDs) != 3 {
			t.Errorf("%d span ids and %d trace ids, want 6 and 3", len(spanIDs), len(traceIDs))
		}
	})
}

// An unfinished handler keeps its record for the next cause, which nevertheless has a trace of its own.
func TestTracing_SupersededCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, recorder := newRecorder()
		obj := newConfigMap("one")
		cluster := kopftest.Memory(t)
		cluster.Create(t, obj)
		operator := cluster.Run(t, kopfotel.Tracing(provider), kopf.For(&corev1.ConfigMap{}).
			On("provision", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonDelete}, func(_ context.Context, req *kopf.Request[configMap]) error {
				if req.Reason == kopf.ReasonCreate {
					return kopf.Temporary(errors.New("busy"), time.Minute)
				}
				return nil
			}))
		<-time.After(10 * time.Second)
		cluster.Delete(t, obj)
		operator.RunUntilQuiet(t)
		spans := spansOf(t, recorder, "provision")
		if len(spans) != 2 || attributesOf(spans[1])["kopf.reason"] != "delete" || attributesOf(spans[1])["kopf.attempt"] != "1" {
			t.Fatalf("spans = %v, want a creation and a deletion", spans)
		}
		if spans[0].SpanContext().TraceID() == spans[1].SpanContext().TraceID() {
			t.Error("the deletion continues the trace of the creation")
		}
	})
}

// Objects and handlers that run at the same time have different traces.
func TestTracing_ParallelObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, recorder := newRecorder()
		operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"), newConfigMap("two"))).Run(t, kopfotel.Tracing(provider),
			kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(ctx context.Context, req *kopf.Request[configMap]) error {
				<-time.After(time.Second)
				if got := trace.SpanFromContext(ctx).(sdktrace.ReadOnlySpan); attributesOf(got)["kopf.object.name"] != req.Object.Name {
					t.Errorf("the handler of %s received the span %v", req.Object.Name, got.Attributes())
				}
				return nil
			}).Timer("a", daemons.Timer{Interval: time.Hour}, succeed).Timer("b", daemons.Timer{Interval: time.Hour}, succeed))
		operator.RunUntilQuiet(t)
		traceIDs := map[trace.TraceID]bool{}
		for _, name := range []string{"create", "a", "b"} {
			for _, span := range spansOf(t, recorder, name) {
				traceIDs[span.SpanContext().TraceID()] = true
			}
		}
		if len(traceIDs) != 6 {
			t.Errorf("number of traces = %d, want 6", len(traceIDs))
		}
	})
}

func TestTracing_Outcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, recorder := newRecorder()
		fail := func(err error) handler { return func(context.Context, *kopf.Request[configMap]) error { return err } }
		attempts := 0
		operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))).Run(t, kopfotel.Tracing(provider), kopf.For(&corev1.ConfigMap{}).
			OnCreate("succeeds", succeed).
			OnCreate("retries", func(context.Context, *kopf.Request[configMap]) error {
				if attempts++; attempts == 1 {
					return kopf.Temporary(errors.New("busy"), time.Minute)
				}
				return nil
			}).
			OnCreate("fails", fail(kopf.Permanent(errors.New("no disk")))).
			OnCreate("ignores", fail(errors.New("no tape")), kopf.ErrorMode(progress.ErrorsIgnored)).
			OnCreate("panics", func(context.Context, *kopf.Request[configMap]) error { panic("no head") }, kopf.Retries(1)).
			Daemon("daemon", daemons.Daemon{}, func(context.Context, *kopf.Request[configMap]) error { panic("no tail") }, kopf.Retries(1)))
		operator.RunUntilQuiet(t)
		for name, want := range map[string][]string{
			"succeeds": {"succeeded Unset"},
			"retries":  {"retried Error busy; exception busy; in 60", "succeeded Unset"},
			"fails":    {"failed Error no disk; exception no disk"},
			"ignores":  {"ignored Unset; exception no tape"},
			"panics":   {"failed Error gave up after 1 attempts: panic: no head; exception gave up after 1 attempts: panic: no head with stack"},
			"daemon":   {"failed Error gave up after 1 attempts: panic: no tail; exception gave up after 1 attempts: panic: no tail with stack"},
		} {
			var got []string
			for _, span := range spansOf(t, recorder, name) {
				got = append(got, describe(span))
			}
			if !slices.Equal(got, want) {
				t.Errorf("spans of %s = %q, want %q", name, got, want)
			}
		}
	})
}

// An attempt that ends because the operator stops is not an error.
func TestTracing_Interrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, recorder := newRecorder()
		operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))).Run(t, kopfotel.Tracing(provider),
			kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(ctx context.Context, _ *kopf.Request[configMap]) error {
				<-ctx.Done()
				return ctx.Err()
			}))
		<-time.After(time.Second)
		operator.Stop(t)
		if got, want := describe(firstSpan(t, recorder, "create")), "interrupted Unset; exception context canceled"; got != want {
			t.Errorf("span = %q, want %q", got, want)
		}
	})
}

// describe returns the outcome, the status and the exceptions of a span.
func describe(span sdktrace.ReadOnlySpan) string {
	attributes := attributesOf(span)
	text := strings.TrimSpace(fmt.Sprintf("%s %s %s", attributes["kopf.outcome"], span.Status().Code, span.Status().Description))
	for _, event := range span.Events() {
		set := attribute.NewSet(event.Attributes...)
		message, _ := set.Value("exception.message")
		text += "; " + event.Name + " " + message.AsString()
		if stack, ok := set.Value("exception.stacktrace"); ok && strings.Contains(stack.AsString(), "tracing_test.go") {
			text += " with stack"
		}
	}
	if delay, ok := attributes["kopf.retry.delay"]; ok {
		text += "; in " + delay
	}
	return text
}

func TestTracing_Attributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, recorder := newRecorder()
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		cluster := kopftest.Memory(t)
		cluster.Create(t, deployment, node)
		operator := cluster.Run(t, kopfotel.Tracing(provider),
			kopf.For(&appsv1.Deployment{}).OnCreate("web", func(context.Context, *kopf.Request[*appsv1.Deployment]) error { return nil }),
			kopf.For(&corev1.Node{}).OnReconcile("node", func(context.Context, *kopf.Request[*corev1.Node]) error { return nil }))
		operator.RunUntilQuiet(t)
		for name, want := range map[string]map[string]string{
			"web": {
				"kopf.handler": "web", "kopf.reason": "create", "kopf.attempt": "0", "kopf.outcome": "succeeded", "kopf.object.group": "apps",
				"kopf.object.version": "v1", "kopf.object.kind": "Deployment", "kopf.object.name": "web", "kopf.object.uid": string(deployment.UID),
				"k8s.namespace.name": "default", "k8s.deployment.name": "web", "k8s.deployment.uid": string(deployment.UID),
			},
			"node": {
				"kopf.handler": "node", "kopf.reason": "reconcile", "kopf.attempt": "0", "kopf.outcome": "succeeded", "kopf.object.group": "",
				"kopf.object.version": "v1", "kopf.object.kind": "Node", "kopf.object.name": "n1", "kopf.object.uid": string(node.UID),
				"k8s.node.name": "n1", "k8s.node.uid": string(node.UID),
			},
		} {
			if got := attributesOf(firstSpan(t, recorder, name)); !maps.Equal(got, want) {
				t.Errorf("attributes of %s = %v, want %v", name, got, want)
			}
		}
	})
}

// The span of a sub-handler is a child of the span of its parent, and lies within it. A handler that is called again after its sub-handlers is not a
// child of its first call.
func TestTracing_SubHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, recorder := newRecorder()
		operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))).Run(t, kopfotel.Tracing(provider),
			kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(_ context.Context, req *kopf.Request[configMap]) error {
				req.Sub("sub", func(_ context.Context, req *kopf.Request[configMap]) error {
					<-time.After(time.Second)
					req.Sub("deep", succeed)
					return nil
				})
				req.AwaitSubs()
				return nil
			}))
		operator.RunUntilQuiet(t)
		creates, subs, deeps := spansOf(t, recorder, "create"), spansOf(t, recorder, "create/sub"), spansOf(t, recorder, "create/sub/deep")
		if len(creates) != 2 || len(subs) != 1 || len(deeps) != 1 {
			t.Fatalf("number of spans = %d, %d and %d, want 2, 1 and 1", len(creates), len(subs), len(deeps))
		}
		parent, sub, deep := creates[0], subs[0], deeps[0]
		if sub.Parent().SpanID() != parent.SpanContext().SpanID() || deep.Parent().SpanID() != sub.SpanContext().SpanID() {
			t.Error("the spans of the sub-handlers are not children of the spans of their parents")
		}
		for _, span := range []sdktrace.ReadOnlySpan{sub, deep, creates[1]} {
			if span.SpanContext().TraceID() != parent.SpanContext().TraceID() {
				t.Errorf("%s has another trace", span.Name())
			}
		}
		if sub.StartTime().Before(parent.StartTime()) || sub.EndTime().After(parent.EndTime()) {
			t.Error("the sub-handler is not within its parent")
		}
		if creates[1].Parent().SpanID().IsValid() {
			t.Error("the second call of the handler has a parent")
		}
	})
}

// The sampler of the provider decides about the attempts as about roots, the same for all attempts of a cycle.
func TestTracing_Sampling(t *testing.T) {
	for name, test := range map[string]struct {
		sampler     sdktrace.Sampler
		least, most int
	}{
		"always":                        {sdktrace.AlwaysSample(), 60, 60},
		"never":                         {sdktrace.NeverSample(), 0, 0},
		"parent-based always":           {sdktrace.ParentBased(sdktrace.AlwaysSample()), 60, 60},
		"a part of the traces":          {sdktrace.TraceIDRatioBased(0.5), 10, 50},
		"a parent-based part of traces": {sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.5)), 10, 50},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				provider, recorder := newRecorder(sdktrace.WithSampler(test.sampler))
				var objects []client.Object
				for i := range 60 {
					objects = append(objects, newConfigMap(fmt.Sprint("c", i)))
				}
				operator := kopftest.Memory(t, kopftest.Objects(objects...)).Run(t, kopfotel.Tracing(provider),
					kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(_ context.Context, req *kopf.Request[configMap]) error {
						if req.Attempt.Number == 0 {
							return kopf.Temporary(errors.New("busy"), time.Minute)
						}
						return nil
					}))
				operator.RunUntilQuiet(t)
				spans := map[trace.TraceID]int{}
				for _, span := range spansOf(t, recorder, "create") {
					spans[span.SpanContext().TraceID()]++
				}
				for id, count := range spans {
					if count != 2 {
						t.Errorf("%d of 2 attempts of the trace %s are sampled", count, id)
					}
				}
				if len(spans) < test.least || len(spans) > test.most {
					t.Errorf("%d of 60 traces are sampled, want %d to %d", len(spans), test.least, test.most)
				}
			})
		})
	}
}

// Requests of instrumented clients continue the trace of the handler.
func TestTracing_Clients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, recorder := newRecorder()
		var header string
		cloud := &http.Client{Transport: otelhttp.NewTransport(roundTripper(func(req *http.Request) (*http.Response, error) {
			header = req.Header.Get("traceparent")
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("")), Request: req}, nil
		}), otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{}))}
		operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))).Run(t, kopfotel.Tracing(provider),
			kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(ctx context.Context, _ *kopf.Request[configMap]) error {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://cloud.example.com", http.NoBody)
				if err != nil {
					return err
				}
				resp, err := cloud.Do(req)
				if err != nil {
					return err
				}
				return resp.Body.Close()
			}))
		operator.RunUntilQuiet(t)
		create, request := firstSpan(t, recorder, "create").SpanContext(), firstSpan(t, recorder, "HTTP GET")
		if request.Parent().SpanID() != create.SpanID() {
			t.Errorf("the parent of the request is %s, want %s", request.Parent().SpanID(), create.SpanID())
		}
		if want := fmt.Sprintf("00-%s-%s-01", create.TraceID(), request.SpanContext().SpanID()); header != want {
			t.Errorf("traceparent = %q, want %q", header, want)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Spans of other code around the reconcile are linked. They do not change the trace.
func TestTracing_LinksToOtherSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, recorder := newRecorder()
		traced := kopf.WithReconcilerWrapper(func(next reconcile.Reconciler) reconcile.Reconciler {
			return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				ctx, span := provider.Tracer("test").Start(ctx, "reconcile")
				defer span.End()
				return next.Reconcile(ctx, req)
			})
		})
		operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))).Run(t, kopfotel.Tracing(provider), traced,
			kopf.For(&corev1.ConfigMap{}).OnCreate("create", succeed))
		operator.RunUntilQuiet(t)
		create, outer := firstSpan(t, recorder, "create"), firstSpan(t, recorder, "reconcile").SpanContext()
		if links := create.Links(); len(links) != 1 || !links[0].SpanContext.Equal(outer) {
			t.Errorf("links = %+v, want one to %+v", links, outer)
		}
		if create.SpanContext().TraceID() == outer.TraceID() || create.Parent().SpanID().IsValid() {
			t.Error("the span of the attempt is not a root of its own trace")
		}
	})
}

// Lines of the handler and the line about its outcome have the id of the trace.
func TestTracing_Logs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, recorder := newRecorder()
		var mu sync.Mutex
		var lines []string
		logger := funcr.New(func(_, line string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, line)
		}, funcr.Options{})
		operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))).RunManager(t, func(mgr manager.Manager) error {
			return kopf.SetupWithManager(mgr, kopfotel.Tracing(provider),
				kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(ctx context.Context, _ *kopf.Request[configMap]) error {
					log.FromContext(ctx).Info("Created a disk")
					return nil
				}))
		}, func(o *manager.Options) { o.Logger = logger })
		operator.RunUntilQuiet(t)
		want := fmt.Sprintf("%q=%q", "traceID", firstSpan(t, recorder, "create").SpanContext().TraceID())
		mu.Lock()
		defer mu.Unlock()
		for _, message := range []string{"Created a disk", "Handler succeeded"} {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, message) && strings.Contains(line, want) }) {
				t.Errorf("no line %q has %s in:\n%s", message, want, strings.Join(lines, "\n"))
			}
		}
	})
}

// Without a provider, the spans go to the global one.
func TestTracing_GlobalProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, recorder := newRecorder()
		before := otel.GetTracerProvider()
		otel.SetTracerProvider(provider)
		defer otel.SetTracerProvider(before)
		operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))).Run(t, kopfotel.Tracing(nil), kopf.For(&corev1.ConfigMap{}).OnCreate("create", succeed))
		operator.RunUntilQuiet(t)
		if got := spansOf(t, recorder, "create"); len(got) != 1 || got[0].Status().Code != codes.Unset {
			t.Errorf("spans = %v, want one", got)
		}
	})
}
