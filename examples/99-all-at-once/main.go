// Command 99-all-at-once is an operator that uses all features. No operator needs all of them; the other examples
// explain them.
package main

import (
	"context"
	"flag"
	"os"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/99-all-at-once/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// Types of the requests that handlers receive, and of objects with metadata only.
type (
	Request  = kopf.Request[*v1.Cluster]
	Metadata = metav1.PartialObjectMetadata
)

func main() {
	var at addresses
	flag.StringVar(&at.metrics, "metrics-bind-address", "localhost:8080", "address that serves metrics and probes")
	flag.StringVar(&at.health, "health-probe-bind-address", "localhost:8081", "address that serves the health checks")
	flag.StringVar(&at.host, "host", "localhost", "name or address by which the API server reaches this machine")
	flag.IntVar(&at.port, "port", 9443, "port on which the webhook server listens")
	peers := peering.Options{Name: "all-at-once", Lifetime: 10 * time.Second}
	peers.BindFlags(flag.CommandLine) // --dev and other flags
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(at, peers); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

// addresses are the listen addresses of the operator.
type addresses struct {
	metrics, health, host string
	port                  int
}

func run(at addresses, peers peering.Options) error {
	if err := v1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		NewCache:               kopf.NewCache,
		Metrics:                server.Options{BindAddress: at.metrics},
		HealthProbeBindAddress: at.health,
		WebhookServer:          webhook.NewServer(webhook.Options{Port: at.port}),
	})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, operator(at, peers)...); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// operator declares the kinds and the options of their operator.
func operator(at addresses, peers peering.Options) []kopf.Option {
	clusters, versions := clusters()
	return []kopf.Option{
		clusters,
		secrets(),
		kopf.WithPeering(peers), // one operator at a time handles these objects
		kopf.WithWebhooks(development(at)),
		// The handler address-book creates and updates config maps. Because of Owns, the operator may already list and watch them.
		kopf.Needs(&corev1.ConfigMap{}, "get", "create", "update"),
		kopf.OnStartup("open", open, kopf.Retries(3), kopf.Backoff(time.Second)),
		kopf.OnCleanup("close", closeAll),
		kopf.OnProbe("versions", func(context.Context) (any, error) { return versions.Len(), nil }),
		// Separate names allow another operator for the same kind.
		kopf.WithFinalizer("all.example.com/finalizer"),
		kopf.WithProgress(progress.Annotations("all.example.com")),
		kopf.WithBaseline(progress.AnnotationBaseline("all.example.com")),
		// The following options control the calls of handlers.
		kopf.WithLifecycle(progress.OneByOne), // the engine calls one handler in each reconcile
		kopf.WithCheckpoint(0),                // the engine writes after each handler
		kopf.WithStuckAfter(5 * time.Minute),
		kopf.WithReconcilerWrapper(logSlowReconciles),
	}
}

func clusters() (*kopf.Resource[*v1.Cluster], *kopf.Index[string, string]) {
	clusters := kopf.For(&v1.Cluster{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 4}), kopf.WithResults("status.results"),
		kopf.WithConditions("Ready", "Provisioned", "Connected"))
	versions := kopf.IndexBy(clusters, "by-version", byVersion)

	clusters.Use(logSlowHandlers).
		// Admission handlers.
		Mutate("defaults", defaults).
		Validate("rules", rules, webhooks.Operations(admissionregistrationv1.Create, admissionregistrationv1.Update)).
		// Cause handlers.
		OnCreate("provision", provision, kopf.Retries(10), kopf.BackoffFunc(progress.Exponential(time.Second, time.Minute)),
			kopf.Timeout(time.Hour), kopf.AttemptTimeout(time.Minute), kopf.ReportCondition("Provisioned")).
		On("connect", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonResume}, connect, kopf.After("provision")).
		OnCreateOrUpdate("users", users, kopf.Field("spec.users")). // declares sub-handlers
		OnUpdate("upgrade", upgrade(versions), kopf.Field("spec.version", filter.From(filter.Present))).
		OnField("scale", "spec.nodes", scale, kopf.ErrorMode(progress.ErrorsPermanent)).
		OnUpdate("greet", greet, kopf.Annotation("example.com/greet"), kopf.ErrorMode(progress.ErrorsIgnored)).
		OnDelete("purge", purge, kopf.Optional()). // the deletion does not wait for purge
		// Reconcile handlers.
		OnReconcile("address-book", addressBook, kopf.Interval(time.Hour)).
		Owns(&corev1.ConfigMap{}).
		OnReconcile("audit", kopf.FromReconciler[*v1.Cluster](auditor{}), kopf.Label("tier", filter.Any(filter.Equal("gold"), filter.Equal("silver")))).
		// Event handlers and condition handlers.
		OnEvent("observe", observe).
		OnCondition("announce", "Ready", announce)
	kopf.OnChange(clusters, "move", tier, move)

	// The deletion of gold clusters waits for these handlers; other clusters get no finalizer.
	clusters.When(func(req *Request) bool { return tier(req.Object) == "gold" }).
		OnDelete("backup", backup).
		// Daemons and timers.
		Daemon("watch", daemons.Daemon{CancellationTimeout: new(5 * time.Second)}, watch).
		Timer("bill", daemons.Timer{Interval: time.Second, Sharp: true}, bill, kopf.WhenCondition("Ready", metav1.ConditionTrue))
	return clusters, versions
}

// secrets watches only the metadata of secrets.
func secrets() *kopf.Resource[*Metadata] {
	return kopf.For(kopf.Metadata(corev1.SchemeGroupVersion.WithKind("Secret")), kopf.WithName("all-secrets")).
		OnEvent("notice", notice, kopf.OwnedBy(&v1.Cluster{}))
}
