package kopfotel_test

import (
	"context"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	kopfotel "github.com/kopf-runtime/kopf-runtime/contrib/otel"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// The exporter and the options of the manager come from the program.
func ExampleTracing() {
	run := func(ctx context.Context, exporter sdktrace.SpanExporter, options ctrl.Options) error {
		provider := sdktrace.NewTracerProvider(
			sdktrace.WithBatcher(exporter),
			sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.1))), // a tenth of the cycles
		)
		defer provider.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // the process ends
		mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), options)
		if err != nil {
			return err
		}
		configMaps := kopf.For(&corev1.ConfigMap{}).OnCreate("copy", copyConfigMap)
		if err := kopf.SetupWithManager(mgr, configMaps, kopfotel.Tracing(provider)); err != nil {
			return err
		}
		return mgr.Start(ctx)
	}
	_ = run
}

// Requests of this client continue the trace of the handler.
var cloud = &http.Client{Transport: otelhttp.NewTransport(http.DefaultTransport)}

func copyConfigMap(ctx context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://backup.example.com/"+req.Object.Name, http.NoBody)
	if err != nil {
		return err
	}
	response, err := cloud.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
