// Command 17-admission is an operator that sets defaults, validates and warns before the API server stores an object.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/17-admission/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

func main() {
	host := flag.String("host", "localhost", "name or address by which the API server reaches this machine")
	port := flag.Int("port", 9443, "port on which the webhook server listens")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(*host, *port); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run(host string, port int) error {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		NewCache:      kopf.NewCache,
		Scheme:        scheme,
		Metrics:       server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Port: port}),
	})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, operator(host, port)...); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func operator(host string, port int) []kopf.Option {
	return []kopf.Option{buckets(), kopf.WithWebhooks(development(host, port))}
}

func buckets() *kopf.Resource[*v1.Bucket] {
	create, update := admissionregistrationv1.Create, admissionregistrationv1.Update
	return kopf.For(&v1.Bucket{}).
		Mutate("defaults", defaults).
		Validate("rules", rules, webhooks.Operations(create, update)).
		// The API server calls protect only for deletions of buckets with the label.
		Validate("protection", protect, webhooks.Label("protected"), webhooks.Operations(admissionregistrationv1.Delete)).
		// audit declares that it has a side effect, except in a dry run.
		Validate("audit", audit, webhooks.SideEffects(admissionregistrationv1.SideEffectClassNoneOnDryRun),
			webhooks.Operations(create, update, admissionregistrationv1.Delete)).
		OnCreate("provision", provision)
}

// development is the configuration for an operator outside of the cluster. Within the cluster, use a Service instead of
// the URL, and keep the configurations when the operator ends.
func development(host string, port int) webhooks.Options {
	return webhooks.Options{
		Name:           "17-admission.example.com",
		Configurations: webhooks.Managed,       // the operator writes the configurations
		Exit:           webhooks.RemoveOnExit,  // the operator removes them when it ends
		Certificates:   webhooks.SelfManaged{}, // the operator stores them in a Secret
		Namespace:      "default",              // namespace of the Secret
		Namespaces:     []string{"default"},    // namespaces of the buckets
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL: new(fmt.Sprintf("https://%s", net.JoinHostPort(host, strconv.Itoa(port)))),
		},
	}
}
