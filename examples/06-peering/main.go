// Command 06-peering is an operator that knows of others: of those that run, the one with the highest priority works.
package main

import (
	"flag"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

func main() {
	// The default is a minute. Here, nobody wants to wait for so long until one that was killed is taken for dead.
	peers := peering.Options{Lifetime: 6 * time.Second}
	peers.BindFlags(flag.CommandLine) // --dev and the others
	metrics := flag.String("metrics-bind-address", "0", "where is served how the operator is, and its metrics; 0: nowhere")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(peers, *metrics); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run(peers peering.Options, metrics string) error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Metrics: server.Options{BindAddress: metrics}})
	if err != nil {
		return err
	}
	database := schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}
	databases := kopf.For(kopf.Unstructured(database)).
		OnCreate("provision", provision).
		OnUpdate("resize", resize, kopf.Field("spec.sizeGiB")).
		OnResume("reconnect", reconnect). // once in the life of a process, however often that is paused
		Daemon("watch", watch)            // stopped by each pause, and started again after it
	if err := kopf.SetupWithManager(mgr, databases, kopf.WithPeering(peers)); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
