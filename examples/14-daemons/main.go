// Command 14-daemons is an operator with goroutines that run as long as their object exists.
package main

import (
	"os"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

// Request is the request that the handlers receive.
type Request = kopf.Request[*unstructured.Unstructured]

func main() {
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run() error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{NewCache: kopf.NewCache, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, databases(3*time.Second)); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// databases declares the handlers. The daemon connection continues for hangUp after its context was cancelled.
func databases(hangUp time.Duration) *kopf.Resource[*unstructured.Unstructured] {
	database := schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}
	return kopf.For(kopf.Unstructured(database)).
		// watch runs until its context is cancelled, for example because the label was added to the object.
		Daemon("watch", daemons.Daemon{}, watch, kopf.Label("unwatched", filter.Absent)).
		// warmUp does its work once, with retries.
		Daemon("warm-up", daemons.Daemon{}, warmUp, kopf.Backoff(200*time.Millisecond)).
		// connection ignores the cancellation. The supervisor logs this after half a second, and stops waiting a second later.
		Daemon("connection", daemons.Daemon{CancellationBackoff: new(500 * time.Millisecond), CancellationTimeout: new(time.Second)}, connection(hangUp)).
		// move takes a long time, so a deletion cancels its context.
		OnUpdate("move", move, kopf.Field("spec.sizeGiB"), kopf.CancelOnDelete()).
		OnDelete("drop", drop)
}
