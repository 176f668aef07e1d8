// Command manager is the operator of a shop: a kubebuilder project with kopf handlers.
package main

import (
	"crypto/tls"
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	shopv1 "github.com/kopf-runtime/kopf-runtime/examples/kubebuilder/api/v1"
	"github.com/kopf-runtime/kopf-runtime/examples/kubebuilder/internal/controller"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	// +kubebuilder:scaffold:imports
)

var (
	scheme   = runtime.NewScheme()
	setupLog = ctrl.Log.WithName("setup")
)

func init() {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(shopv1.AddToScheme(scheme))
	// +kubebuilder:scaffold:scheme
}

// settings are the values of the flags.
type settings struct {
	metrics, probes, metricsCerts string
	secureMetrics, elect, http2   bool
}

func main() {
	var s settings
	flag.StringVar(&s.metrics, "metrics-bind-address", "0", "address that serves the metrics, such as :8443; 0 disables it")
	flag.BoolVar(&s.secureMetrics, "metrics-secure", true, "serve the metrics over HTTPS")
	flag.StringVar(&s.metricsCerts, "metrics-cert-path", "", "directory with tls.crt and tls.key for the metrics; default: a self-signed certificate")
	flag.StringVar(&s.probes, "health-probe-bind-address", ":8081", "address that serves /healthz and /readyz")
	flag.BoolVar(&s.elect, "leader-elect", false, "elect a leader, so that only one replica is active")
	flag.BoolVar(&s.http2, "enable-http2", false, "allow HTTP/2 for metrics")
	logging := zap.Options{Development: true}
	logging.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))
	if err := run(s); err != nil {
		setupLog.Error(err, "The manager has failed")
		os.Exit(1)
	}
}

func run(s settings) error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		NewCache:               kopf.NewCache,
		Scheme:                 scheme,
		Metrics:                server.Options{BindAddress: s.metrics, SecureServing: s.secureMetrics, CertDir: s.metricsCerts, TLSOpts: s.tls()},
		HealthProbeBindAddress: s.probes,
		LeaderElection:         s.elect,
		LeaderElectionID:       "5d0a7c21.example.com",
	})
	if err != nil {
		return err
	}
	warehouse := controller.NewWarehouse(map[string]int32{"book": 10, "lamp": 2})
	if err := (&controller.OrderHandlers{Warehouse: warehouse}).SetupWithManager(mgr, controller.InvoiceNeeds()); err != nil {
		return err
	}
	if err := (&controller.InvoiceReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr); err != nil {
		return err
	}
	if err := (&controller.ParcelReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr); err != nil {
		return err
	}
	// +kubebuilder:scaffold:builder

	// kopf.SetupWithManager has already added the checks of kopf.
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// tls disables HTTP/2 by default, because it is not needed and has known vulnerabilities.
func (s settings) tls() []func(*tls.Config) {
	if s.http2 {
		return nil
	}
	return []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
}
