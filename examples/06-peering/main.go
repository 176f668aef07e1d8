// Command 06-peering is an operator that pauses while another operator with a higher priority runs.
package main

import (
	"flag"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

func main() {
	// The default lifetime is a minute. With six seconds, the example removes the record of a killed operator sooner.
	peers := peering.Options{Lifetime: 6 * time.Second}
	peers.BindFlags(flag.CommandLine) // --dev and other flags
	metrics := flag.String("metrics-bind-address", "0", "address that serves the state of the peering and the metrics; 0 disables it")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(peers, *metrics); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run(peers peering.Options, metrics string) error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{NewCache: kopf.NewCache, Metrics: server.Options{BindAddress: metrics}})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, operator(peers)...); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func operator(peers peering.Options) []kopf.Option {
	database := schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}
	databases := kopf.For(kopf.Unstructured(database)).
		OnCreate("provision", provision).
		OnUpdate("resize", resize, kopf.Field("spec.sizeGiB")).
		OnResume("reconnect", reconnect).        // the engine calls reconnect once in each process, but not after a pause
		Daemon("watch", daemons.Daemon{}, watch) // the supervisor stops watch for a pause and starts it again afterwards
	return []kopf.Option{databases, kopf.WithPeering(peers)}
}
