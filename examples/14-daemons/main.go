// Command 14-daemons is an operator with functions that accompany each object for as long as it lives.
package main

import (
	"os"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

// Request is what the functions are given.
type Request = kopf.Request[*unstructured.Unstructured]

func main() {
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run() error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, databases(3*time.Second)); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// databases declares the handlers. The daemon connection continues for a time after it was stopped.
func databases(hangUp time.Duration) *kopf.Resource[*unstructured.Unstructured] {
	database := schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}
	return kopf.For(kopf.Unstructured(database)).
		// Runs until it is told to stop: here also when the label is put on the object.
		Daemon("watch", watch, kopf.Label("unwatched", filter.Absent)).
		// Has something to do once, is tried again until it has succeeded, and is done then.
		Daemon("warm-up", warmUp, kopf.Backoff(200*time.Millisecond)).
		// Does not stop when it is told to. After half a second it is reported, after one more it is not waited for.
		Daemon("connection", connection(hangUp),
			kopf.CancellationBackoff(500*time.Millisecond), kopf.CancellationTimeout(time.Second)).
		// No daemon, but it takes long: the deletion does not wait for it.
		OnUpdate("move", move, kopf.Field("spec.sizeGiB"), kopf.CancelOnDelete()).
		OnDelete("drop", drop)
}
